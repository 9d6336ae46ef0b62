/*
** Redis Cluster: 16384 slots, each of which a node has. All of an app is in one slot, so a script
** that is about an app goes to one node. The map of the slots is read with each connection, and
** stays as it is: when a node says that it is wrong, the connection is made anew.
**
** A slot that is on its way to another node is waited for. Some of its keys are here then, some
** there, and a script needs all of them; so what ASK tells is not followed.
*/
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/redis/redis.h"

/* ---- slots (the specification of Redis Cluster: CRC-16/XMODEM) ---- */

static unsigned slot_of(moonpad_string tag) {
  unsigned crc = 0;
  for (size_t i = 0; i < tag.length; i++) {
    crc ^= (unsigned)(unsigned char)tag.data[i] << 8;
    for (int bit = 0; bit < 8; bit++) crc = (crc << 1 ^ ((crc & 0x8000) != 0 ? 0x1021U : 0)) & 0xFFFF;
  }
  return crc % MP_REDIS_SLOTS;
}

/* ---- going to a node ---- */

static moonpad_status note_failure(mp_redis_connection *connection, const mp_remote_failure *failure,
                                   moonpad_error *error) {
  mp_remote_note(&connection->base, failure->status, failure->again, "", &failure->error);
  if (error != NULL) *error = failure->error;
  return failure->status;
}

moonpad_status mp_redis_go_to_node(mp_redis_connection *connection, size_t index, moonpad_error *error) {
  mp_remote_failure failure, before = connection->base.failure;
  connection->node = &connection->nodes[index];
  if (connection->node->redis != NULL) return MOONPAD_OK;
  moonpad_status status = mp_redis_open_node(connection, false, &failure);
  connection->base.failure = before;
  return status == MOONPAD_OK ? status : note_failure(connection, &failure, error);
}

/* `tag` has what decides where it is. */
static moonpad_status go_to_slot(mp_redis_connection *connection, moonpad_error *error) {
  if (connection->tag.bytes.failed) {
    mp_remote_failure failure = {.again = MP_AGAIN_NEVER};
    failure.status = mp_no_memory(&failure.error);
    return note_failure(connection, &failure, error);
  }
  moonpad_string tag = {connection->tag.bytes.data, connection->tag.bytes.length};
  unsigned slot = slot_of(tag), number = connection->slots[slot];
  if (number > 0) return mp_redis_go_to_node(connection, number - 1, error);
  mp_remote_failure failure = {.again = MP_AGAIN_RECONNECT};
  failure.status = mp_fail(&failure.error, MOONPAD_STORAGE, "%s: no node of the cluster has slot %u",
                           connection->store->remote.place, slot);
  return note_failure(connection, &failure, error);
}

moonpad_status mp_redis_go_to_app(mp_redis_connection *connection, moonpad_string app_name, moonpad_error *error) {
  if (connection->slots == NULL) return MOONPAD_OK;
  mp_redis_arguments_clear(&connection->tag);
  mp_redis_encode(&connection->tag, app_name);
  return go_to_slot(connection, error);
}

moonpad_status mp_redis_go_to_key(mp_redis_connection *connection, const char *name, moonpad_error *error) {
  if (connection->slots == NULL) return MOONPAD_OK;
  mp_redis_arguments_clear(&connection->tag);
  mp_buffer_add_string(&connection->tag.bytes, moonpad_text(connection->store->prefix));
  mp_buffer_add_string(&connection->tag.bytes, moonpad_text(name));
  return go_to_slot(connection, error);
}

/* ---- the map ---- */

static mp_redis_node *find_node(mp_redis_node *nodes, size_t count, const mp_redis_address *address) {
  for (size_t i = 0; i < count; i++) {
    bool is_it = nodes[i].address.port == address->port && strcmp(nodes[i].address.host, address->host) == 0;
    if (is_it) return &nodes[i];
  }
  return NULL;
}

/* Without a name it is the host that was asked. */
static bool read_address(const mp_redis_connection *connection, const redisReply *node, mp_redis_address *address) {
  moonpad_string host = mp_redis_string(mp_redis_item(node, 0));
  int64_t port = mp_redis_integer(mp_redis_item(node, 1));
  if (port <= 0 || port > 65535 || host.length >= sizeof address->host) return false;
  snprintf(address->host, sizeof address->host, "%s", host.length > 0 ? host.data : connection->node->address.host);
  address->port = (int)port;
  return true;
}

typedef struct cluster_map {
  mp_redis_node *nodes;
  size_t count, capacity;
  uint16_t *slots;
} cluster_map;

/* First slot, last slot, the node that has them, and its replicas. */
static bool add_range(mp_redis_connection *connection, cluster_map *map, const redisReply *range) {
  int64_t first = mp_redis_integer(mp_redis_item(range, 0)), last = mp_redis_integer(mp_redis_item(range, 1));
  mp_redis_address address;
  if (first < 0 || last >= MP_REDIS_SLOTS || !read_address(connection, mp_redis_item(range, 2), &address)) return true;
  mp_redis_node *node = find_node(map->nodes, map->count, &address);
  if (node == NULL) {
    void *nodes = map->nodes;
    bool has_room =
        mp_reserve(connection->store->remote.env, &nodes, &map->capacity, sizeof *map->nodes, map->count + 1);
    map->nodes = nodes;
    if (!has_room) return false;
    node = &map->nodes[map->count++];
    *node = (mp_redis_node){.address = address};
  }
  for (int64_t slot = first; slot <= last; slot++) map->slots[slot] = (uint16_t)(node - map->nodes + 1);
  return true;
}

/* The connection that has asked is kept, if it is one to a node that has slots. */
static void take_map(mp_redis_connection *connection, const cluster_map *map) {
  mp_redis_node *asked = connection->node;
  mp_redis_node *same = find_node(map->nodes, map->count, &asked->address);
  if (same != NULL) {
    *same = *asked;
  } else {
    mp_redis_close_node(connection, asked);
  }
  mp_release(connection->store->remote.env, connection->nodes);
  connection->nodes = map->nodes;
  connection->node_count = map->count;
  connection->slots = map->slots;
  connection->node = same != NULL ? same : map->nodes;
}

static void learn(mp_redis_learned *learned, const cluster_map *map) {
  mp_mutex_lock(&learned->lock);
  learned->count = map->count < MP_REDIS_MOST_LEARNED ? map->count : MP_REDIS_MOST_LEARNED;
  for (size_t i = 0; i < learned->count; i++) learned->nodes[i] = map->nodes[i].address;
  mp_mutex_unlock(&learned->lock);
}

static moonpad_status read_map(mp_redis_connection *connection, const redisReply *ranges, mp_remote_failure *failure) {
  mp_env *env = connection->store->remote.env;
  cluster_map map = {.slots = mp_allocate_zeroed(env, MP_REDIS_SLOTS * sizeof *map.slots)};
  bool has_room = map.slots != NULL;
  for (size_t i = 0; has_room && i < mp_redis_count(ranges); i++) {
    has_room = add_range(connection, &map, mp_redis_item(ranges, i));
  }
  if (has_room && map.count > 0) {
    learn(connection->store->learned, &map);
    take_map(connection, &map);
    return MOONPAD_OK;
  }
  mp_release(env, map.nodes);
  mp_release(env, map.slots);
  if (!has_room) return failure->status = mp_no_memory(&failure->error);
  failure->again = MP_AGAIN_RECONNECT;
  failure->was_connecting = true;
  return failure->status = mp_fail(&failure->error, MOONPAD_STORAGE, "%s: no node of the cluster has a slot",
                                   connection->store->remote.place);
}

static redisReply *ask(mp_redis_connection *connection, const char *word) {
  mp_redis_arguments arguments;
  mp_redis_arguments_init(&arguments, connection->store->remote.env);
  mp_redis_add_text(&arguments, word);
  redisReply *reply = mp_redis_command(connection, "CLUSTER", &arguments, NULL);
  mp_redis_arguments_free(&arguments);
  return reply;
}

/* A node that is cut off from the others knows an old map. */
moonpad_status mp_redis_read_cluster(mp_redis_connection *connection, mp_remote_failure *failure) {
  memset(failure, 0, sizeof *failure);
  redisReply *info = ask(connection, "INFO");
  moonpad_string text = mp_redis_string(info);
  bool is_well = text.data != NULL && strstr(text.data, "cluster_state:ok") != NULL;
  if (info != NULL) freeReplyObject(info);
  redisReply *ranges = is_well ? ask(connection, "SLOTS") : NULL;
  if (ranges != NULL) {
    moonpad_status status = read_map(connection, ranges, failure);
    freeReplyObject(ranges);
    return status;
  }
  *failure = connection->base.failure;
  mp_remote_clear_failure(&connection->base);
  if (failure->status == MOONPAD_OK) {
    failure->status =
        mp_fail(&failure->error, MOONPAD_STORAGE, "%s: the cluster is down", connection->store->remote.place);
    failure->again = MP_AGAIN_RECONNECT;
  }
  failure->was_connecting = true;
  return failure->status;
}
