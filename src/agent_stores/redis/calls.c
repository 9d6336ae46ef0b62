/* One call in one transaction. */
#include <float.h>
#include <math.h>

#include "agent_stores/redis/stores.h"

static void add_common(mp_redis_arguments *out, const mp_redis_agent_call *call) {
  mp_redis_add(out, call->user_id);
  if (call->add != NULL) call->add(out, call->context);
}

static moonpad_status ask(mp_redis_tx *tx, mp_redis_agent_call *call, moonpad_error *error) {
  redisReply *reply = NULL;
  call->is_idle = false;
  add_common(mp_redis_begin_question(tx, call->question), call);
  moonpad_status status = mp_redis_ask(tx, MP_REDIS_READS_HEADS, &reply, error);
  if (status != MOONPAD_OK) return status;
  status = call->take(call, tx->connection, reply, error);
  freeReplyObject(reply);
  return status;
}

static moonpad_status run_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_redis_tx *tx = mp_redis_tx_of(base);
  mp_redis_agent_call *call = context;
  moonpad_status status = mp_redis_enter_app(tx, call->app_name, error);
  if (status == MOONPAD_OK && call->question != NULL) status = ask(tx, call, error);
  if (status != MOONPAD_OK || call->write == NULL || call->is_idle) return status;
  mp_redis_arguments *write = mp_redis_begin_write(tx, call->write);
  add_common(write, call);
  if (call->add_write != NULL) call->add_write(write, call->context);
  return mp_redis_end_write(tx, error);
}

moonpad_status mp_redis_agent_ask(mp_store *store, mp_redis_agent_call *call, moonpad_error *error) {
  return mp_remote_read(store, run_in, call, error);
}

moonpad_status mp_redis_agent_change(mp_store *store, mp_redis_agent_call *call, moonpad_error *error) {
  return mp_remote_write(store, run_in, call, error);
}

void mp_redis_agent_renew(mp_store *store, mp_redis_agent_call *call) {
  mp_remote_write_in_a_hurry(store, run_in, call, NULL);
}

void mp_redis_agent_add_time(mp_redis_arguments *out, double time) {
  mp_redis_add_time(out, isfinite(time) ? time : -DBL_MAX);
}
