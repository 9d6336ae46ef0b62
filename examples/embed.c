/*
** A game loop that remembers: four villagers, sixty frames a second, one SQLite file. Nothing in a
** frame waits for the disk.
**
**   make && cc -Iinclude -o embed examples/embed.c build/libmoonpad.a -lsqlite3 -lpthread -lm
**   ./embed village.db                     three seconds of game
**   ./embed --frames 60 village.db         the next second: they still know what they saw before
**
** Every villager has a session. What one perceives in a frame is written into a change set, which
** is committed as one event with moonpad_changes_commit_async: the session object shows it at once,
** a thread of the service stores it, and moonpad_poll tells the loop, on the loop's own thread,
** what has become of it.
*/
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <moonpad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRAMES_PER_SECOND 60
#define VILLAGERS         4
#define FRAMES_PER_SIGHT  20 /* a villager looks around three times a second */
#define TEXT_BYTES        512

static const char *const names[VILLAGERS] = {"Mira", "Oswin", "Tilda", "Bran"};
static const char *const sights[] = {"a wolf at the fence", "the miller's cart",      "smoke over the hill",
                                     "a stranger in grey",  "the player with a lamp", "rain coming in"};
static const char *const moods[] = {"wary", "calm", "worried", "curious", "glad", "tired"};
#define SIGHTS (sizeof sights / sizeof sights[0])

typedef struct game {
  moonpad_service *service;
  moonpad_session *villagers[VILLAGERS];
  long frame;
  double started;   /* seconds since 1970 */
  long queued;      /* events given to the writer thread */
  long stored;      /* events whose callback said so */
  bool failed;      /* one was not stored: the game says so and ends */
  double frame_sum; /* what the frames cost in seconds, and the worst of them */
  double worst_frame;
} game;

/* ---- Errors and time ---- */

static bool check(moonpad_status status, const moonpad_error *error, const char *what) {
  if (status == MOONPAD_OK) return true;
  fprintf(stderr, "embed: %s: %s: %s\n", what, moonpad_status_name(status), error->message);
  return false;
}

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/*
** The game's own time, a sixtieth of a second per frame however long a frame took. Only the game's
** thread fills in timestamps here.
*/
static double game_time(void *context) {
  const game *world = context;
  return world->started + (double)world->frame / FRAMES_PER_SECOND;
}

static void sleep_until(double monotonic) {
  double left = monotonic - seconds(CLOCK_MONOTONIC);
  if (left <= 0) return;
  struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
  nanosleep(&pause, NULL);
}

/* ---- What a villager does in a frame ---- */

/* Called by moonpad_poll, so on the game's thread. */
static void when_stored(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  game *world = context;
  if (event != NULL) {
    world->stored++;
    return;
  }
  moonpad_string id = moonpad_session_id(session);
  fprintf(stderr, "embed: %.*s could not remember: %s: %s\n", (int)id.length, id.data, moonpad_status_name(error->code),
          error->message);
  world->failed = true;
}

/*
** The writes of one sight. They are seen by nobody else until the event is stored, and then all
** at once.
*/
static moonpad_status write_sight(moonpad_changes *changes, game *world, const char *sight, const char *mood,
                                  moonpad_error *error) {
  char memory[TEXT_BYTES];
  snprintf(memory, sizeof memory, "{\"at\":%.3f,\"what\":\"%s\"}", game_time(world), sight);
  moonpad_value mood_value = moonpad_string_value(moonpad_text(mood));
  moonpad_value memory_value = moonpad_json(moonpad_text(memory));
  moonpad_value one = moonpad_integer(1);
  moonpad_value x;

  moonpad_status status = moonpad_changes_set(changes, moonpad_text("mood"), moonpad_text(""), &mood_value, error);
  if (status == MOONPAD_OK) { /* one number inside a table: the rest of "body" stays as it is */
    status = moonpad_changes_get(changes, moonpad_text("body"), moonpad_text("place.x"), &x, error);
  }
  if (status == MOONPAD_OK) {
    moonpad_value step = moonpad_integer(x.as.integer + 1);
    status = moonpad_changes_set(changes, moonpad_text("body"), moonpad_text("place.x"), &step, error);
  }
  if (status == MOONPAD_OK) status = moonpad_changes_append(changes, moonpad_text("memories"), &memory_value, error);
  if (status == MOONPAD_OK) status = moonpad_changes_increment(changes, moonpad_text("sights"), &one, error);
  /* shared by all villagers: added where it is stored, so nobody's addition is lost */
  if (status == MOONPAD_OK) {
    status = moonpad_changes_increment(changes, moonpad_text("app:sights"), &one, error);
  }
  return status;
}

static bool look_around(game *world, size_t who) {
  size_t which = ((size_t)world->frame / FRAMES_PER_SIGHT + who * 2) % SIGHTS;
  char event[TEXT_BYTES];
  moonpad_changes *changes = NULL;
  moonpad_error error;
  snprintf(event, sizeof event,
           "{\"author\":\"%s\",\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"I see %s.\"}]}}", names[who],
           sights[which]);

  moonpad_status status = moonpad_changes_begin(world->villagers[who], &changes, &error);
  if (status == MOONPAD_OK) status = write_sight(changes, world, sights[which], moods[which], &error);
  if (status == MOONPAD_OK) {
    status = moonpad_changes_commit_async(changes, moonpad_text(event), when_stored, world, &error);
  }
  moonpad_changes_free(changes);
  if (status == MOONPAD_OK) world->queued++;
  return check(status, &error, names[who]);
}

/* An event without state: something that was said. */
static bool speak(game *world, size_t who) {
  char event[TEXT_BYTES];
  moonpad_value mood;
  moonpad_error error;
  moonpad_status status =
      moonpad_session_read(world->villagers[who], moonpad_text("mood"), moonpad_text(""), &mood, &error);
  if (status == MOONPAD_OK) {
    bool known = mood.type == MOONPAD_STRING;
    snprintf(event, sizeof event,
             "{\"author\":\"%s\",\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"I feel %.*s.\"}]}}", names[who],
             known ? (int)mood.as.text.length : 7, known ? mood.as.text.data : "nothing");
    status = moonpad_append_event_async(world->villagers[who], moonpad_text(event), when_stored, world, &error);
  }
  if (status == MOONPAD_OK) world->queued++;
  return check(status, &error, names[who]);
}

static bool run_frame(game *world) {
  bool ok = true;
  for (size_t who = 0; ok && who < VILLAGERS; who++) {
    long turn = world->frame + (long)who * 5; /* not all in the same frame */
    if (turn % FRAMES_PER_SIGHT == 0) ok = look_around(world, who);
    if (ok && turn % FRAMES_PER_SECOND == FRAMES_PER_SECOND - 1) ok = speak(world, who);
  }
  moonpad_poll(world->service, 0); /* never waits: calls when_stored for what is done */
  return ok && !world->failed;
}

static bool run_frames(game *world, long frames) {
  double start = seconds(CLOCK_MONOTONIC);
  for (world->frame = 0; world->frame < frames; world->frame++) {
    double before = seconds(CLOCK_MONOTONIC);
    if (!run_frame(world)) return false;
    double cost = seconds(CLOCK_MONOTONIC) - before;
    world->frame_sum += cost;
    if (cost > world->worst_frame) world->worst_frame = cost;
    sleep_until(start + (double)(world->frame + 1) / FRAMES_PER_SECOND);
  }
  return true;
}

/* ---- Before and after ---- */

static bool wake_villager(game *world, size_t who) {
  moonpad_session_name name = {moonpad_text("village"), moonpad_text("player"), moonpad_text(names[who])};
  moonpad_error error;
  moonpad_status status = moonpad_get_session(world->service, &name, NULL, &world->villagers[who], &error);
  if (status == MOONPAD_NOT_FOUND) {
    moonpad_string newborn = moonpad_text("{\"body\":{\"health\":10,\"place\":{\"x\":0,\"y\":0}},\"memories\":[]}");
    status = moonpad_create_session(world->service, &name, newborn, &world->villagers[who], &error);
  }
  return check(status, &error, names[who]);
}

static int64_t read_integer(moonpad_session *session, const char *key, const char *path) {
  moonpad_value value;
  moonpad_error error;
  if (!check(moonpad_session_read(session, moonpad_text(key), moonpad_text(path), &value, &error), &error, key))
    return 0;
  return value.type == MOONPAD_INTEGER ? value.as.integer : 0;
}

static void print_text(moonpad_session *session, const char *before, const char *key, const char *path) {
  moonpad_value value;
  moonpad_error error;
  if (!check(moonpad_session_read(session, moonpad_text(key), moonpad_text(path), &value, &error), &error, key)) return;
  if (value.type == MOONPAD_STRING) printf("%s%.*s", before, (int)value.as.text.length, value.as.text.data);
}

/* Reads single places by path: nothing else of the state is decoded. */
static void print_memory(game *world, size_t who) {
  moonpad_session *session = world->villagers[who];
  int64_t sights_seen = read_integer(session, "sights", "");
  if (sights_seen == 0) {
    printf("  %-5s remembers nothing\n", names[who]);
    return;
  }
  char latest[64];
  snprintf(latest, sizeof latest, "[%lld].what", (long long)sights_seen);
  printf("  %-5s at x = %lld, %lld memories", names[who], (long long)read_integer(session, "body", "place.x"),
         (long long)sights_seen);
  print_text(session, ", feels ", "mood", "");
  print_text(session, "; first ", "memories", "[1].what");
  print_text(session, ", last ", "memories", latest);
  printf("\n");
}

static void print_village(game *world, const char *when) {
  printf("%s\n", when);
  for (size_t who = 0; who < VILLAGERS; who++) print_memory(world, who);
  printf("  all together have seen %lld things\n", (long long)read_integer(world->villagers[0], "app:sights", ""));
}

/*
** Waits for what is still on its way to the disk, and brings every villager up to what the others
** have stored.
*/
static bool finish_appends(game *world) {
  moonpad_error error;
  while (!world->failed && world->stored < world->queued) moonpad_poll(world->service, 100);
  for (size_t who = 0; !world->failed && who < VILLAGERS; who++) {
    if (!check(moonpad_refresh(world->villagers[who], &error), &error, names[who])) return false;
  }
  return !world->failed;
}

static bool play(game *world, long frames) {
  for (size_t who = 0; who < VILLAGERS; who++) {
    if (!wake_villager(world, who)) return false;
  }
  print_village(world, "Before:");
  if (!run_frames(world, frames) || !finish_appends(world)) return false;
  print_village(world, "After:");
  printf("%ld frames, %ld events stored; a frame cost %.0f us on average, %.0f us at worst (a frame has %d us)\n",
         frames, world->stored, world->frame_sum / (double)frames * 1e6, world->worst_frame * 1e6,
         1000000 / FRAMES_PER_SECOND);
  return true;
}

static bool open_and_play(const char *path, long frames) {
  game world = {.started = seconds(CLOCK_REALTIME)};
  char url[4096];
  moonpad_options options;
  moonpad_error error;
  moonpad_options_init(&options);
  options.clock = game_time;
  options.clock_context = &world;
  if (snprintf(url, sizeof url, "sqlite:%s", path) >= (int)sizeof url) {
    fprintf(stderr, "embed: the path is too long\n");
    return false;
  }
  if (!check(moonpad_open(moonpad_text(url), &options, &world.service, &error), &error, "cannot open the file")) {
    return false;
  }
  bool ok = play(&world, frames);
  for (size_t who = 0; who < VILLAGERS; who++) moonpad_session_free(world.villagers[who]);
  moonpad_service_release(world.service);
  return ok;
}

static int usage(void) {
  fprintf(stderr, "usage: embed [--frames N] FILE\n"
                  "  FILE        a SQLite file; made when it is not there, continued when it is\n"
                  "  --frames N  how many frames to run, 60 a second (default 180)\n");
  return 2;
}

static bool parse_frames(const char *text, long *frames) {
  char *end = NULL;
  errno = 0;
  *frames = strtol(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && *frames > 0 && *frames <= 1000000000;
}

int main(int count, char **arguments) {
  const char *path = NULL;
  long frames = 3L * FRAMES_PER_SECOND;
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--frames") == 0) {
      if (i + 1 == count || !parse_frames(arguments[++i], &frames)) {
        fprintf(stderr, "embed: --frames needs a positive number\n");
        return usage();
      }
    } else if (arguments[i][0] == '-' || path != NULL) {
      fprintf(stderr, "embed: unexpected argument \"%s\"\n", arguments[i]);
      return usage();
    } else {
      path = arguments[i];
    }
  }
  if (path == NULL || *path == '\0') return usage();
  return open_and_play(path, frames) ? EXIT_SUCCESS : EXIT_FAILURE;
}
