/*
** A store behind a slow link: "slow:MILLISECONDS:URL" is the store of that URL (memory: or
** sqlite:), where each operation waits so long before it begins, and each further question that a
** transaction asks does so, too: that is a round trip. What is written goes with the commit. It
** takes plans, as a store on a server does, so the service asks it as it asks a server.
*/
#ifndef SLOW_STORE_H
#define SLOW_STORE_H

#include "store/store.h"

moonpad_status slow_store_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                               moonpad_error *error);
extern const struct moonpad_store_opener slow_store_opener;

/* Of all slow stores of this process, since it began. Any thread. */
long slow_store_round_trips(void);
/* The same, of those that the calling thread made and waited for. */
long slow_store_round_trips_here(void);
/*
** While the link is held, what is on its way stays there, for a minute at most; but so many pass.
** Any thread.
*/
void slow_store_hold(bool is_held, int passes);
/*
** The answers of so many appends from now on are lost after they were stored: as a store on a
** server does, it then sends the same plans once more. Any thread.
*/
void slow_store_lose_answers(int count);

#endif
