/* Tables from what the encoder recorded. */
#include "lua/recording.h"

typedef struct copier {
  lua_State *L;
  const mp_recorded *next; /* the table to be made next */
  int at;                  /* the slot that comes next */
  int array_meta;
} copier;

static void push_table(copier *c, int more);

/* Pushes the value at hand. */
static void push_recorded(copier *c) {
  if (lua_type(c->L, c->at) == LUA_TTABLE) {
    push_table(c, 0);
  } else {
    lua_pushvalue(c->L, c->at++);
  }
}

static void push_array(copier *c, int members) {
  lua_createtable(c->L, members, 0);
  for (int i = 1; i <= members; i++) {
    c->at++; /* the index */
    push_recorded(c);
    lua_rawseti(c->L, -2, i);
  }
  lua_pushvalue(c->L, c->array_meta);
  lua_setmetatable(c->L, -2);
}

/* At a table, which is copied with room for `more`. */
static void push_table(copier *c, int more) {
  const mp_recorded *table = c->next++;
  c->at++;
  if (table->is_array) {
    push_array(c, table->members);
    return;
  }
  lua_createtable(c->L, 0, table->members + more);
  for (int i = 0; i < table->members; i++) {
    lua_pushvalue(c->L, c->at++);
    push_recorded(c);
    lua_rawset(c->L, -3);
  }
}

void mp_push_recorded(lua_State *L, const mp_recording *recording, int more) {
  luaL_checkstack(L, 2 * MP_RECORDED_TABLES + 8, NULL);
  mp_push_anchor(L, MP_ANCHOR_ARRAY_META);
  copier c = {L, recording->tables, recording->first, lua_gettop(L)};
  push_table(&c, more);
  lua_replace(L, c.array_meta);
}
