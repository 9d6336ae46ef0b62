/*
** A session object that is ahead of its store: it knows a later revision of the session, its user
** or its app than is stored, because a failover has lost events, or a backup was restored (contract
** 2). It is brought to what is stored by its next append or refresh.
**
** Whoever looks at the store finds that out by the revisions and asks for all keys of that scope
** (mp_look_for_changed_keys). An append then compares what the object showed with what is stored,
** since revisions of a history that is gone say nothing (append/conflicts.c). When the view has
** taken that in, what else the object holds of that history is forgotten here.
**
** Not found out: that events were lost of which others have stored as many since. The revision is
** as high then, and to compare more would cost every append.
*/
#ifndef MP_SERVICE_SESSION_AHEAD_H
#define MP_SERVICE_SESSION_AHEAD_H

#include "service/session/session.h"

/*
** After mp_changed_keys_apply, before the object holds the revisions of `stored`, the row that the
** look has found: forgets its events, turns and bases, and tells the log. Nothing where it was not
** ahead. On the object's thread.
*/
void mp_session_take_back(moonpad_session *session, const mp_changed_keys *changed, const mp_session_row *stored);
/*
** Empties the journals of the keys that were taken back, once no append is in flight, which uses
** them on a worker.
*/
void mp_session_forget_taken_back(moonpad_session *session);

#endif
