/*
** Services on hosts of their own, network namespaces, that write to one server, and a network
** between them that fails. Only root may make them: for others the tests are skipped.
*/
#define _GNU_SOURCE /* unshare */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server_faults.h"

#define HOSTS 2

typedef struct remote_host {
  pid_t process;
  int number;
  int to, from;    /* pipes: a byte says to go on */
  writer *writers; /* in memory that both processes see */
} remote_host;

static void run(const char *command) {
  if (system(command) != 0) fail_msg("%s", command);
}

/* ---- the network: a cable to each host. 198.18.0.0/15 is for tests (RFC 2544) ---- */

static unsigned network; /* of this run: a byte */

static void write_address(const remote_host *self, int end, char address[32]) {
  snprintf(address, 32, "198.18.%u.%d", network, 4 * self->number + end);
}

static void write_cable(const remote_host *self, char name[32]) {
  snprintf(name, 32, "moonpad%u_%d", network, self->number);
}

static void lay_cable(const remote_host *self) {
  char command[400], cable[32], here[32];
  write_cable(self, cable);
  write_address(self, 1, here);
  snprintf(command, sizeof command,
           "ip link add %s type veth peer name cable netns %d && ip address add %s/30 dev %s && ip link set %s up",
           cable, (int)self->process, here, cable, cable);
  run(command);
}

static void set_cable(const remote_host *self, const char *state) {
  char command[100], cable[32];
  write_cable(self, cable);
  snprintf(command, sizeof command, "ip link set %s %s", cable, state);
  run(command);
}

/* ---- a host: a process ---- */

static bool get_byte(int from) {
  char byte;
  return read(from, &byte, 1) == 1;
}

static void put_byte(int to) {
  if (write(to, "", 1) != 1) fail_msg("a host has ended");
}

static bool join_network(const remote_host *self) {
  char command[200], address[32];
  write_address(self, 2, address);
  snprintf(command, sizeof command, "ip link set lo up && ip address add %s/30 dev cable && ip link set cable up",
           address);
  return system(command) == 0;
}

/*
** Writes from when it is told to until it is told again. It is no test itself: whatever fails ends
** it.
*/
static void be_host(remote_host *self, const char *url, int64_t busy_timeout_ms) {
  moonpad_service *service = NULL;
  atomic_bool ends = false;
  if (unshare(CLONE_NEWNET) != 0 || write(self->from, "", 1) != 1) _exit(1);
  if (!get_byte(self->to) || !join_network(self)) _exit(1);
  for (double limit = time_limit(); faults_open_within(url, busy_timeout_ms, &service) != MOONPAD_OK;) {
    if (wait_before(limit)) continue;
    fprintf(stderr, "a host: %s\n", failure.message);
    _exit(1);
  }
  writers_start_from(self->writers, self->number * WRITERS, service, &ends);
  get_byte(self->to);
  atomic_store(&ends, true);
  writers_join(self->writers);
  moonpad_service_release(service);
  _exit(0);
}

/* `url` with the server's address as this host sees it. */
static void write_url(const remote_host *self, const char *url, char seen[300]) {
  char address[32];
  write_address(self, 1, address);
  const char *local = strstr(url, "127.0.0.1");
  assert_non_null(local);
  snprintf(seen, 300, "%.*s%s%s", (int)(local - url), url, address, local + strlen("127.0.0.1"));
}

static void start_host(remote_host *self, int number, const char *url, int64_t busy_timeout_ms) {
  int to[2], from[2];
  char seen[300];
  *self = (remote_host){.number = number};
  self->writers =
      mmap(NULL, WRITERS * sizeof *self->writers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->writers != MAP_FAILED);
  write_url(self, url, seen);
  assert_int_equal(pipe(to), 0);
  assert_int_equal(pipe(from), 0);
  self->process = fork();
  if (self->process == 0) {
    close(to[1]);
    close(from[0]);
    self->to = to[0];
    self->from = from[1];
    be_host(self, seen, busy_timeout_ms);
  }
  close(to[0]);
  close(from[1]);
  self->to = to[1];
  self->from = from[0];
  assert_true(get_byte(self->from));
  lay_cable(self);
  put_byte(self->to);
}

/* What it has written is what `writers` say; its service has been closed. */
static void end_host(remote_host *self) {
  int status = 0;
  put_byte(self->to);
  waitpid(self->process, &status, 0);
  self->process = 0;
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void remove_host(remote_host *self) {
  if (self->process > 0) {
    kill(self->process, SIGKILL);
    waitpid(self->process, NULL, 0);
  }
  if (self->to > 0) close(self->to);
  if (self->from > 0) close(self->from);
  if (self->writers != NULL) munmap(self->writers, WRITERS * sizeof *self->writers);
}

/* ---- a server, and hosts that write to it ---- */

typedef struct server_kind {
  const char *script;
  const char *options; /* it listens on all addresses */
} server_kind;

static const server_kind kinds[] = {{"spec/servers/postgresql.sh", "\"listen_addresses = '*'\""},
                                    {"spec/servers/mariadb.sh", "--bind-address=0.0.0.0"},
                                    {"spec/servers/redis.sh", "bind 0.0.0.0"}};

typedef struct scene {
  own_server server;
  moonpad_service *service; /* on the server's own host */
  remote_host hosts[HOSTS];
} scene;

/* *state is a kind, and then a scene. */
static int set_up(void **state) {
  const server_kind *kind = *state;
  scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  *state = self;
  if (geteuid() == 0) own_server_make(&self->server, kind->script, "start", kind->options);
  return 0;
}

static int tear_down(void **state) {
  scene *self = *state;
  for (int i = 0; i < HOSTS; i++) remove_host(&self->hosts[i]);
  moonpad_service_release(self->service);
  if (self->server.script != NULL) own_server_end(&self->server);
  free(self);
  return 0;
}

static size_t count_sessions(moonpad_service *service) {
  moonpad_session_list *list = NULL;
  OK(moonpad_list_sessions(service, T("app"), NULL, &list, &failure));
  size_t count = moonpad_session_list_count(list);
  moonpad_session_list_free(list);
  return count;
}

/* Until all writers have one. */
static void wait_for_sessions(moonpad_service *service) {
  WAIT_UNTIL(count_sessions(service) == HOSTS * WRITERS);
}

static void start_hosts(scene *self, int64_t busy_timeout_ms) {
  OK(faults_open(self->server.url, &self->service));
  for (int i = 0; i < HOSTS; i++) start_host(&self->hosts[i], i, self->server.url, busy_timeout_ms);
  wait_for_sessions(self->service);
}

/* Of all writers on a host. */
static int64_t count_events(moonpad_service *service, int number) {
  int64_t events = 0;
  for (int i = 0; i < WRITERS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", number * WRITERS + i);
    moonpad_session *session = NULL;
    moonpad_session_name name = host_name(id);
    OK(moonpad_get_session(service, &name, NULL, &session, &failure));
    events += moonpad_session_revision(session);
    moonpad_session_free(session);
  }
  return events;
}

static int count_unknown(const remote_host *self) {
  int unknown = 0;
  for (int i = 0; i < WRITERS; i++) unknown += atomic_load(&self->writers[i].unknown);
  return unknown;
}

/* Every acknowledged event is there once, and they are what is counted. Returns how many failed. */
static int end_hosts(scene *self) {
  int64_t events = 0;
  int unknown = 0;
  for (int i = 0; i < HOSTS; i++) end_host(&self->hosts[i]);
  for (int i = 0; i < HOSTS; i++) events += writers_count(self->hosts[i].writers, self->service);
  writers_check_sum(self->service, events);
  for (int i = 0; i < HOSTS; i++) unknown += count_unknown(&self->hosts[i]);
  return unknown;
}

/* ---- the tests ---- */

static void test_a_short_cut_loses_nothing(void **state) {
  scene *self = *state;
  if (self->server.script == NULL) skip();
  start_hosts(self, TIMEOUT_MS);
  for (int i = 0; i < HOSTS; i++) writers_go_on(self->hosts[i].writers);
  for (int i = 0; i < HOSTS; i++) set_cable(&self->hosts[i], "down");
  mp_sleep(2);
  for (int i = 0; i < HOSTS; i++) set_cable(&self->hosts[i], "up");
  for (int i = 0; i < HOSTS; i++) writers_go_on(self->hosts[i].writers);
  assert_int_equal(end_hosts(self), 0);
}

/*
** Longer than it waits for a server that says nothing: 10 s, and busyTimeoutMs. Who is not cut off
** goes on, and who was goes on afterwards.
*/
static void test_a_long_cut_is_told(void **state) {
  scene *self = *state;
  if (self->server.script == NULL) skip();
  start_hosts(self, 2000);
  for (int i = 0; i < HOSTS; i++) writers_go_on(self->hosts[i].writers);
  set_cable(&self->hosts[0], "down");
  int64_t of_second = count_events(self->service, 1);
  WAIT_UNTIL(count_unknown(&self->hosts[0]) > 0);
  WAIT_UNTIL(count_events(self->service, 1) > of_second + 100);
  set_cable(&self->hosts[0], "up");
  writers_go_on(self->hosts[0].writers);
  end_hosts(self);
}

int main(void) {
#define ON(kind, name, test)                                                                                           \
  { name, test, set_up, tear_down, (void *)&kinds[kind] }
  const struct CMUnitTest tests[] = {
      ON(0, "a short cut, PostgreSQL", test_a_short_cut_loses_nothing),
      ON(1, "a short cut, MariaDB", test_a_short_cut_loses_nothing),
      ON(2, "a short cut, Redis", test_a_short_cut_loses_nothing),
      ON(0, "a long cut, PostgreSQL", test_a_long_cut_is_told),
      ON(1, "a long cut, MariaDB", test_a_long_cut_is_told),
      ON(2, "a long cut, Redis", test_a_long_cut_is_told),
  };
  network = (unsigned)getpid() % 255;
  signal(SIGPIPE, SIG_IGN); /* a host that has ended is found out */
  return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
