/*
** What a game in C waits for when it leaves the storing to a thread of the service: 1,000
** characters, 10 state writes and 1 asynchronous append each per second, 60 frames per second in
** real time. frames.lua measures the same from Lua.
*/
#include "raw_sqlite.h"

enum { NPCS = 1000, FRAMES_PER_SECOND = 60, WRITES = 10, SECONDS = 10, FRAMES = FRAMES_PER_SECOND * SECONDS };

typedef struct game {
  moonpad_session *sessions[NPCS];
  long written;
  long queued;
  long stored;
} game;

static void note_stored(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  game *played = context;
  (void)session;
  (void)event;
  if (error != NULL) must_call(error->code, error);
  played->stored++;
}

static moonpad_changes *changes_of(moonpad_session *session) {
  moonpad_changes *changes = NULL;
  moonpad_error error;
  must_call(moonpad_session_changes(session, &changes, &error), &error);
  return changes;
}

static void play_frame(moonpad_service *service, game *played, long frame) {
  static const char *const keys[WRITES] = {"x",    "y",         "mood", "target", "hunger",
                                           "path", "user:gold", "goal", "seen",   "plan"};
  moonpad_error error;
  for (long due = frame * NPCS * WRITES / FRAMES_PER_SECOND; played->written < due; played->written++) {
    moonpad_string key = moonpad_text(keys[played->written / NPCS % WRITES]);
    moonpad_value value = moonpad_integer(played->written);
    moonpad_changes *changes = changes_of(played->sessions[played->written % NPCS]);
    must_call(moonpad_changes_set(changes, key, moonpad_text(""), &value, &error), &error);
  }
  for (long due = frame * NPCS / FRAMES_PER_SECOND; played->queued < due; played->queued++) {
    moonpad_changes *changes = changes_of(played->sessions[played->queued % NPCS]);
    must_call(moonpad_changes_commit_async(changes, moonpad_text("{\"author\":\"npc\"}"), note_stored, played, &error),
              &error);
  }
  moonpad_poll(service, 0);
}

static void wait_until(double due_us) {
  double left = due_us - now_us();
  if (left <= 0) return;
  struct timespec pause = {(time_t)(left / 1e6), (long)((left - (double)(long)(left / 1e6) * 1e6) * 1e3)};
  nanosleep(&pause, NULL);
}

static void measure(const char *folder, const char *what, moonpad_durability durability) {
  char path[4096], work[160];
  static game played;
  samples times = {0};
  memset(&played, 0, sizeof played);
  snprintf(work, sizeof work, "frames-%s.db", what);
  file_path(path, sizeof path, folder, work);
  moonpad_service *service = open_file_service(path, durability);
  for (int i = 0; i < NPCS; i++) {
    char user[32];
    moonpad_error error;
    snprintf(user, sizeof user, "npc %d", i);
    moonpad_session_name name = {moonpad_text("game"), moonpad_text(user), moonpad_text("life")};
    must_call(moonpad_create_session(service, &name, moonpad_text("{}"), &played.sessions[i], &error), &error);
  }
  long behind = 0;
  double begin = now_us();
  for (long frame = 1; frame <= FRAMES; frame++) {
    double start = now_us();
    play_frame(service, &played, frame);
    add_sample(&times, (now_us() - start) * 1e-3);
    if (played.queued - played.stored > behind) behind = played.queued - played.stored;
    wait_until(begin + (double)frame * 1e6 / FRAMES_PER_SECOND);
  }
  while (played.stored < played.queued) must(moonpad_poll(service, 60000) > 0, "storing what is queued");
  snprintf(work, sizeof work, "a frame of 1,000 NPCs in C, SQLite %s, asynchronous, mean", what);
  print_noted("", work, "ms", mean(&times));
  snprintf(work, sizeof work, "a frame of 1,000 NPCs in C, SQLite %s, asynchronous, p99", what);
  print_noted("", work, "ms", percentile(&times, 0.99));
  snprintf(work, sizeof work, "a frame of 1,000 NPCs in C, SQLite %s, asynchronous, worst of %d", what, FRAMES);
  print_bound("", work, "ms", percentile(&times, 1), 1000.0 / FRAMES_PER_SECOND);
  snprintf(work, sizeof work, "a frame of 1,000 NPCs in C, SQLite %s, asynchronous, most appends under way", what);
  print_noted("", work, "appends", (double)behind);
  for (int i = 0; i < NPCS; i++) moonpad_session_free(played.sessions[i]);
  moonpad_service_release(service);
  clear_samples(&times);
}

int main(int count, char **values) {
  bench_arguments arguments = read_arguments(count, values);
  measure(arguments.folder, "NORMAL", MOONPAD_DURABILITY_NORMAL);
  measure(arguments.folder, "FULL", MOONPAD_DURABILITY_FULL);
  return 0;
}
