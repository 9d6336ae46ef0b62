/*
** Makes FOLDER/history.db for lua.lua: a session "ten" of ten events, and "long", of the history
** asked for.
*/
#include "raw_sqlite.h"

int main(int count, char **values) {
  bench_arguments arguments = read_arguments(count, values);
  char path[4096];
  file_path(path, sizeof path, arguments.folder, "history.db");
  moonpad_service *service = open_file_service(path, MOONPAD_DURABILITY_NORMAL);
  moonpad_session *ten = create_session(service, "ten"), *longest = create_session(service, "long");
  fill_history(service, ten, 0, 10);
  fill_history(service, longest, 0, arguments.history);
  moonpad_session_free(longest);
  moonpad_session_free(ten);
  moonpad_service_release(service);
  return 0;
}
