/*
** A store behind a slow link: "slow:MILLISECONDS:URL" is the store of that URL (memory: or
** sqlite:), where each operation waits so long before it begins, and so does each further question
** of a transaction: that is a round trip. What is written is sent with the commit. It has `append`,
** as a store on a server does, so the service uses it as it uses a server.
*/
#ifndef SLOW_STORE_H
#define SLOW_STORE_H

#include "store/store.h"

moonpad_status slow_store_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                               moonpad_error *error);
extern const struct moonpad_store_opener slow_store_opener;

/* The round trips of all slow stores of this process, since it began. Any thread. */
long slow_store_round_trips(void);
/* Those that the calling thread made and waited for. */
long slow_store_round_trips_here(void);
/*
** While the link is held, round trips wait, for some minutes at most (timeout.h), but for the next
** `passes` of them. To let go of it lets all go that have begun by then, also those that did not
** notice before it was held again. Any thread.
*/
void slow_store_hold(bool is_held, int passes);
/*
** The answers of the next `count` appends are lost after they were stored: the store then sends the
** same plans once more, as a store on a server does. Any thread.
*/
void slow_store_lose_answers(int count);

#endif
