/* Sweeping: what has expired is looked for among a thousand, and removed a hundred at a time. */
#include "agent_stores/redis/stores.h"
#include "base/error.h"

enum { USER, PLACE = 3, COUNT = MP_REDIS_ANSWER, ROWS, NEXT };

typedef struct sweeping {
  mp_store *store;
  mp_redis_agent_call call;
  double alive_since;
  mp_redis_arguments place; /* where the question begins: user, and two names behind it */
  mp_redis_arguments next;
  mp_redis_arguments rows; /* how many count, then what is to go */
  int64_t count;
  int64_t *removed;
} sweeping;

static void add_all(mp_redis_arguments *out, const redisReply *texts) {
  mp_redis_arguments_clear(out);
  for (size_t i = 0; i < mp_redis_count(texts); i++) mp_redis_add(out, mp_redis_string(mp_redis_item(texts, i)));
}

static void add_place(mp_redis_arguments *out, void *context) {
  const sweeping *self = context;
  for (size_t i = USER + 1; i < PLACE; i++) mp_redis_add(out, mp_redis_argument(&self->place, i));
  mp_redis_agent_add_time(out, self->alive_since);
}

static void add_rows(mp_redis_arguments *out, void *context) {
  const sweeping *self = context;
  mp_redis_add_integer(out, self->count);
  for (size_t i = 0; i < self->rows.count; i++) mp_redis_add(out, mp_redis_argument(&self->rows, i));
}

static moonpad_status take_old(mp_redis_agent_call *call, mp_redis_connection *connection, const redisReply *reply,
                               moonpad_error *error) {
  sweeping *self = call->context;
  (void)connection;
  self->count = mp_redis_integer(mp_redis_item(reply, COUNT));
  add_all(&self->rows, mp_redis_item(reply, ROWS));
  add_all(&self->next, mp_redis_item(reply, NEXT));
  call->is_idle = self->rows.count == 0;
  return self->rows.failed || self->next.failed ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_status sweep_app(void *context, moonpad_string app_name, moonpad_error *error) {
  sweeping *self = context;
  moonpad_status status = MOONPAD_OK;
  mp_redis_arguments_clear(&self->place);
  for (size_t i = 0; i < PLACE; i++) mp_redis_add_text(&self->place, "");
  self->call.app_name = app_name;
  while (status == MOONPAD_OK && self->place.count == PLACE) {
    self->call.user_id = mp_redis_argument(&self->place, USER);
    status = mp_redis_agent_change(self->store, &self->call, error);
    if (status == MOONPAD_OK) *self->removed += self->count;
    mp_redis_arguments used = self->place;
    self->place = self->next;
    self->next = used;
  }
  return status == MOONPAD_OK && self->place.failed ? mp_no_memory(error) : status;
}

moonpad_status mp_redis_agent_sweep(mp_store *store, const char *question, const char *write, const mp_agent_time *time,
                                    int64_t *removed, moonpad_error *error) {
  mp_env *env = ((mp_redis *)store)->remote.env;
  sweeping self = {.store = store, .alive_since = mp_agent_alive_since(time), .removed = removed};
  self.call = (mp_redis_agent_call){.question = question,
                                    .write = write,
                                    .add = add_place,
                                    .take = take_old,
                                    .add_write = add_rows,
                                    .context = &self};
  mp_redis_arguments *const all[] = {&self.place, &self.next, &self.rows};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mp_redis_arguments_init(all[i], env);
  moonpad_status status = mp_redis_agent_each_app(store, moonpad_text(""), sweep_app, &self, error);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mp_redis_arguments_free(all[i]);
  return status;
}
