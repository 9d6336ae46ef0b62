#!/bin/bash
# The two files of `make amalgamation`, as a host uses them: they compile without flags and without
# a warning, run a game and an agent, and are small without what can be left out.
#   scripts/check_amalgamation.sh BUILD FOLDER      FOLDER is an empty one
set -eu
cd "$(dirname "$0")/.."
build=$1 folder=$2
largest=$((250 * 1024)) # bytes of code, with the store in memory alone

make BUILD="$build" amalgamation
cp "$build"/amalgamation/* "$folder"
cp examples/embed.c "$folder/game.c"
# shellcheck disable=SC2207 # flags are words
lua=($(pkg-config --cflags lua5.4))

cat >"$folder/agent.c" <<'C'
#include "moonpad_lua.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
int main(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  int failed = luaL_dostring(L, "local moonpad = require 'moonpad'\n"
                                "local runner <close> = moonpad.runner { appName = 'a', url = 'sqlite::memory:',\n"
                                "  agent = moonpad.agent { name = 'a', model = function() return 'Hello.' end } }\n"
                                "for event in runner:run { userId = 'u', newMessage = 'Hi.' } do\n"
                                "  print(event.content.parts[1].text)\n"
                                "end\n");
  if (failed) fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
  lua_close(L);
  return failed;
}
C
cat >"$folder/small.c" <<'C'
#include "moonpad.h"
#include <stdio.h>
#include <string.h>
static void stored(void *context, moonpad_session *session, const moonpad_event *event, const moonpad_error *error) {
  (void)session, (void)error;
  *(int *)context += event != NULL;
}
int main(void) {
  moonpad_service *service;
  moonpad_session *session;
  moonpad_error error;
  int count = 0;
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("user"), moonpad_text("s")};
  if (moonpad_open(moonpad_text("sqlite:x.db"), NULL, &service, &error) != MOONPAD_UNSUPPORTED) return 1;
  puts(error.message);
  if (strstr(error.message, "built in is memory:") == NULL) return 2;
  if (moonpad_open(moonpad_text("memory:"), NULL, &service, &error) != MOONPAD_OK) return 3;
  if (moonpad_create_session(service, &name, moonpad_text("{}"), &session, &error) != MOONPAD_OK) return 4;
  if (moonpad_append_event_async(session, moonpad_text("{\"author\":\"user\"}"), stored, &count, &error)) return 5;
  if (moonpad_poll(service, 0) != 1 || count != 1) return 6;
  moonpad_session_free(session);
  moonpad_service_release(service);
  return 0;
}
C
cd "$folder"
for compiler in gcc clang; do
  $compiler -c -Wall -Wextra -Werror moonpad.c
  $compiler -c -Wall -Wextra -Werror "${lua[@]}" moonpad_lua.c
done
gcc -std=c11 -o game -I. game.c moonpad.o -lsqlite3 -pthread -lm
./game --frames 60 village.db
# shellcheck disable=SC2046 # flags are words
gcc -o agent agent.c moonpad_lua.o moonpad.o $(pkg-config --cflags --libs lua5.4) -lsqlite3 -pthread -lm
[ "$(LUA_PATH='?' LUA_CPATH='?' ./agent)" = "Hello." ]

# Headers of another Lua are refused by name.
mkdir other && printf '#include_next <lua.h>\n#undef LUA_VERSION_NUM\n#define LUA_VERSION_NUM 503\n' >other/lua.h
if gcc -c -Iother "${lua[@]}" moonpad_lua.c 2>errors; then exit 1; fi
grep -q "needs the headers of Lua 5.4" errors

# Without threads nothing of threads is linked.
gcc -c -Wall -Wextra -Werror -DMOONPAD_NO_THREADS moonpad.c
gcc -c -Wall -Wextra -Werror -DMOONPAD_NO_THREADS "${lua[@]}" moonpad_lua.c
if nm -u moonpad.o moonpad_lua.o | grep -E ' (pthread|thrd)_'; then exit 1; fi
gcc -std=c11 -o game -I. game.c moonpad.o -lsqlite3 -lm
./game --frames 60 village.db
# shellcheck disable=SC2046 # flags are words
gcc -o agent agent.c moonpad_lua.o moonpad.o $(pkg-config --cflags --libs lua5.4) -lsqlite3 -lm
[ "$(LUA_PATH='?' LUA_CPATH='?' ./agent)" = "Hello." ]

# Without SQLite its header is not asked for, and nothing but the C library is linked.
mkdir without && echo '#error "not to be included"' >without/sqlite3.h
gcc -c -Os -Wall -Wextra -Werror -Iwithout -DMOONPAD_NO_SQLITE -DMOONPAD_NO_THREADS moonpad.c
gcc -o small small.c moonpad.o -lm
./small
bytes=$(size moonpad.o | awk 'NR == 2 { print $1 }')
echo "-Os, with the store in memory alone, without threads: $bytes bytes of code (at most $largest)"
[ "$bytes" -le $largest ]
