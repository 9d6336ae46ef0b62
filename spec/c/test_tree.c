/*
** Trees (core/tree.h), on which the nodes of Lua sit: reading, identity, writing, staleness,
** messages. C reads and writes by path, and never holds a node.
*/
#include "tree_support.h"

static mp_item member(mp_node *node, const char *key) {
  mp_item item;
  assert_int_equal(mp_node_member(node, moonpad_text(key), &item, NULL), MOONPAD_OK);
  return item;
}

static mp_item item_at(mp_node *node, int64_t index) {
  mp_item item;
  assert_int_equal(mp_node_index(node, index, &item, NULL), MOONPAD_OK);
  return item;
}

static size_t count_of(mp_node *node) {
  size_t count = 99;
  assert_int_equal(mp_node_count(node, &count, NULL), MOONPAD_OK);
  return count;
}

static void assert_string_item(mp_item item, const char *expected, size_t length) {
  assert_int_equal(item.scalar.type, MOONPAD_STRING);
  assert_int_equal(item.scalar.as.text.length, length);
  assert_memory_equal(item.scalar.as.text.data, expected, length);
}

/* The write fails with this message, asks nobody and changes nothing. */
static void assert_refused(plant *p, const char *statement, const char *message) {
  char *before = text_of(p->root);
  int asked = p->w->asked;
  assert_int_equal(write_one(p->w, p->root, statement), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(p->w->error.message, message);
  assert_int_equal(p->w->asked, asked);
  assert_text(p->root, before);
  free(before);
}

/* ---- Reading ---- */

static void every_scalar_is_read_with_its_type(void **state) {
  plant *p = plant_new(*state, "{\"b\":true,\"c\":false,\"e\":\"\",\"f\":1.0,\"g\":1e+300,\"i\":-9223372036854775808,"
                               "\"j\":9223372036854775807,\"n\":null,\"q\":\"a\\\"\\u0000b\",\"s\":\"plain\"}");
  assert_int_equal(count_of(p->root), 10);
  assert_true(member(p->root, "b").scalar.as.boolean);
  assert_false(member(p->root, "c").scalar.as.boolean);
  assert_int_equal(member(p->root, "c").scalar.type, MOONPAD_BOOLEAN);
  assert_string_item(member(p->root, "e"), "", 0);
  assert_int_equal(member(p->root, "f").scalar.type, MOONPAD_FLOAT);
  assert_true(member(p->root, "f").scalar.as.number == 1.0);
  assert_true(member(p->root, "g").scalar.as.number == 1e300);
  assert_int_equal(member(p->root, "i").scalar.type, MOONPAD_INTEGER);
  assert_true(member(p->root, "i").scalar.as.integer == INT64_MIN);
  assert_true(member(p->root, "j").scalar.as.integer == INT64_MAX);
  assert_int_equal(member(p->root, "n").scalar.type, MOONPAD_NULL);
  assert_string_item(member(p->root, "q"), "a\"\0b", 4);
  assert_string_item(member(p->root, "q"), "a\"\0b", 4);
  assert_string_item(member(p->root, "s"), "plain", 5);
  assert_int_equal(member(p->root, "zz").scalar.type, MOONPAD_ABSENT);
  assert_null(member(p->root, "zz").node);
  assert_int_equal(item_at(p->root, 1).scalar.type, MOONPAD_ABSENT);
  assert_int_equal(p->w->asked, 0);
  assert_false(mp_tree_is_dirty(p->root));
  plant_free(p);
}

static void items_are_numbered_from_one(void **state) {
  plant *p = plant_new(*state, "[10,[],{\"x\":{}},\"],\"]");
  assert_true(mp_node_is_array(p->root));
  assert_int_equal(count_of(p->root), 4);
  assert_int_equal(item_at(p->root, 0).scalar.type, MOONPAD_ABSENT);
  assert_int_equal(item_at(p->root, -1).scalar.type, MOONPAD_ABSENT);
  assert_int_equal(item_at(p->root, INT64_MIN).scalar.type, MOONPAD_ABSENT);
  assert_int_equal(item_at(p->root, INT64_MAX).scalar.type, MOONPAD_ABSENT);
  assert_int_equal(item_at(p->root, 5).scalar.type, MOONPAD_ABSENT);
  assert_true(item_at(p->root, 1).scalar.as.integer == 10);
  assert_int_equal(item_at(p->root, 2).scalar.type, MOONPAD_ARRAY);
  assert_int_equal(count_of(item_at(p->root, 2).node), 0);
  assert_int_equal(item_at(p->root, 3).scalar.type, MOONPAD_OBJECT);
  assert_string_item(item_at(p->root, 4), "],", 2);
  assert_int_equal(member(p->root, "x").scalar.type, MOONPAD_ABSENT);
  plant_free(p);
}

static void keys_are_found_whatever_they_hold(void **state) {
  plant *p = plant_new(*state, "{\"\":1,\"\\u0000\":2,\"\\\"}\":3,\"\xC3\xA4\":4}");
  mp_item item;
  assert_true(member(p->root, "").scalar.as.integer == 1);
  assert_ok(mp_node_member(p->root, (moonpad_string){"\0", 1}, &item, NULL));
  assert_true(item.scalar.as.integer == 2);
  assert_true(member(p->root, "\"}").scalar.as.integer == 3);
  assert_true(member(p->root, "\xC3\xA4").scalar.as.integer == 4);
  assert_ok(write_all(p->w, p->root, "b=5"));
  assert_text(p->root, "{\"\":1,\"\\u0000\":2,\"\\\"}\":3,\"b\":5,\"\xC3\xA4\":4}");
  plant_free(p);
}

static void many_members_are_found_and_walked(void **state) {
  plant *p = plant_new(*state, "{}");
  char statement[64];
  for (int i = 0; i < 1000; i++) {
    snprintf(statement, sizeof(statement), "k%d=%d", (i * 7) % 1000, (i * 7) % 1000);
    assert_ok(write_one(p->w, p->root, statement));
  }
  for (int i = 0; i < 1000; i += 3) {
    snprintf(statement, sizeof(statement), "k%d=-", i);
    assert_ok(write_one(p->w, p->root, statement));
  }
  assert_int_equal(count_of(p->root), 666);
  for (int i = 0; i < 1000; i++) {
    snprintf(statement, sizeof(statement), "k%d", i);
    mp_item item = member(p->root, statement);
    assert_int_equal(item.scalar.type, i % 3 == 0 ? MOONPAD_ABSENT : MOONPAD_INTEGER);
    if (i % 3 != 0) assert_true(item.scalar.as.integer == i);
  }
  int64_t sum = 0;
  for (size_t i = 0; i < 666; i++) {
    moonpad_string key;
    mp_item item;
    assert_ok(mp_node_member_at(p->root, i, &key, &item, NULL));
    snprintf(statement, sizeof(statement), "k%d", (int)item.scalar.as.integer);
    assert_int_equal(key.length, strlen(statement));
    assert_memory_equal(key.data, statement, key.length);
    sum += item.scalar.as.integer;
  }
  assert_true(sum == 499500 - 166833);
  moonpad_string key;
  mp_item item;
  assert_ok(mp_node_member_at(p->root, 666, &key, &item, NULL));
  assert_int_equal(item.scalar.type, MOONPAD_ABSENT);
  plant_free(p);
}

/* The cursor of the walk must follow what is removed and put back behind and before it. */
static void positions_stay_right_while_members_come_and_go(void **state) {
  plant *p = plant_new(*state, "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5}");
  moonpad_string key;
  mp_item item;
  assert_ok(write_all(p->w, p->root, "b=-"));
  assert_ok(mp_node_member_at(p->root, 2, &key, &item, NULL));
  assert_int_equal(key.data[0], 'd');
  assert_ok(write_all(p->w, p->root, "a=-"));
  assert_ok(mp_node_member_at(p->root, 2, &key, &item, NULL));
  assert_int_equal(key.data[0], 'e');
  assert_ok(write_all(p->w, p->root, "b=7"));
  assert_ok(mp_node_member_at(p->root, 2, &key, &item, NULL));
  assert_int_equal(key.data[0], 'd');
  assert_ok(mp_node_member_at(p->root, 0, &key, &item, NULL));
  assert_int_equal(key.data[0], 'b');
  assert_ok(mp_node_member_at(p->root, 1, &key, NULL, NULL));
  assert_int_equal(key.data[0], 'c');
  assert_ok(mp_node_member_at(p->root, 9, &key, NULL, NULL));
  assert_int_equal(key.length, 0);
  plant_free(p);
}

static void what_was_not_written_keeps_its_text(void **state) {
  static const char text[] = "{\"z\":[1,{\"y\":2,\"x\":1}],\"a\":{\"d\":1,\"c\":2}}";
  plant *p = plant_new(*state, text);
  down(p->root, "z[2]");
  assert_text(p->root, text);
  assert_text(down(p->root, "z[2]"), "{\"y\":2,\"x\":1}");
  assert_ok(write_all(p->w, p->root, "a.c=3"));
  assert_text(p->root, "{\"a\":{\"c\":3,\"d\":1},\"z\":[1,{\"y\":2,\"x\":1}]}");
  plant_free(p);
}

static void values_are_shared_and_never_changed(void **state) {
  plant *p = plant_new(*state, "{\"a\":{\"b\":1}}");
  mp_value *whole = mp_node_value(p->root);
  mp_value *part = mp_node_value(down(p->root, "a"));
  mp_value *again = mp_node_value(p->root);
  assert_ptr_equal(whole, again);
  assert_ok(write_all(p->w, p->root, "a.b=2"));
  mp_value *after = mp_node_value(p->root);
  assert_memory_equal(whole->as.as.text.data, "{\"a\":{\"b\":1}}", 13);
  assert_memory_equal(after->as.as.text.data, "{\"a\":{\"b\":2}}", 13);
  assert_memory_equal(part->as.as.text.data, "{\"b\":1}", 7);
  assert_int_equal(after->as.type, MOONPAD_OBJECT);
  assert_ok(write_all(p->w, p->root, "a.b=3"));
  assert_text(p->root, "{\"a\":{\"b\":3}}");
  mp_value_release(p->w->env, whole);
  mp_value_release(p->w->env, again);
  mp_value_release(p->w->env, part);
  mp_value_release(p->w->env, after);
  plant_free(p);
}

/* ---- Identity ---- */

static void the_same_path_is_the_same_node(void **state) {
  plant *p = plant_new(*state, "{\"list\":[{\"x\":1},{\"x\":2}],\"o\":{}}");
  mp_node *list = down(p->root, "list");
  mp_node *second = down(p->root, "list[2]");
  assert_ok(write_all(p->w, p->root, "o.x=1; list[1]=5; list+={}; new=[]; list[1]=6"));
  assert_ptr_equal(down(p->root, "list"), list);
  assert_ptr_equal(down(p->root, "list[2]"), second);
  mp_tree_mark_clean(p->root);
  assert_ptr_equal(down(p->root, "list[2]"), second);
  assert_true(mp_node_holds_member(p->root, moonpad_text("list"), list));
  assert_false(mp_node_holds_member(p->root, moonpad_text("o"), list));
  assert_true(mp_node_holds_index(list, 2, second));
  assert_false(mp_node_holds_index(list, 1, second));
  assert_false(mp_node_holds_index(p->root, 2, second));
  assert_false(mp_node_holds_member(p->root, moonpad_text("list"), p->root));
  plant_free(p);
}

/* Marking clean closes the holes, so children move. */
static void children_are_found_after_holes_are_closed(void **state) {
  plant *p = plant_new(*state,
                       "{\"a\":{},\"b\":{},\"c\":{\"x\":1},\"d\":[],\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":{}}");
  mp_node *c = down(p->root, "c");
  mp_node *j = down(p->root, "j");
  assert_ok(write_all(p->w, p->root, "a=-; b=-; h=-"));
  mp_tree_mark_clean(p->root);
  assert_true(mp_node_holds_member(p->root, moonpad_text("c"), c));
  assert_ptr_equal(down(p->root, "c"), c);
  assert_ptr_equal(down(p->root, "j"), j);
  assert_int_equal(member(p->root, "a").scalar.type, MOONPAD_ABSENT);
  assert_ok(write_all(p->w, c, "x=2"));
  assert_ok(write_all(p->w, j, "y=2"));
  assert_text(p->root, "{\"c\":{\"x\":2},\"d\":[],\"e\":1,\"f\":1,\"g\":1,\"i\":1,\"j\":{\"y\":2}}");
  plant_free(p);
}

/* ---- Writing ---- */

static void objects_are_written(void **state) {
  plant *p = plant_new(*state, "{\"b\":1}");
  assert_ok(write_all(p->w, p->root, "c={\"k\":[1]}; a=\"x\"; b=-; nothing=-; c.k+=2; c.k[1]=null"));
  assert_text(p->root, "{\"a\":\"x\",\"c\":{\"k\":[null,2]}}");
  assert_int_equal(p->w->asked, 5);
  assert_true(mp_tree_is_dirty(p->root));
  assert_int_equal(count_of(p->root), 2);
  plant_free(p);
}

static void arrays_are_written(void **state) {
  plant *p = plant_new(*state, "[1,2]");
  assert_ok(write_all(p->w, p->root, "[3]=3; [1]=0; [3]=-; [9]=-; [0]=-; [-1]=-; x=-"));
  assert_text(p->root, "[0,2]");
  assert_int_equal(p->w->asked, 3);
  assert_ok(write_all(p->w, p->root, "[2]=-; [1]=-; [1]=-"));
  assert_text(p->root, "[]");
  assert_int_equal(p->w->asked, 5);
  plant_free(p);
}

static void items_shift_as_table_insert_and_remove_do(void **state) {
  plant *p = plant_new(*state, "[{\"n\":1},{\"n\":2},{\"n\":3}]");
  for (int64_t i = 3; i >= 1; i--) {
    mp_value *moved = mp_node_value(item_at(p->root, i).node);
    assert_ok(mp_node_set_index(p->root, i + 1, moved, NULL));
    mp_value_release(p->w->env, moved);
  }
  assert_ok(write_all(p->w, p->root, "[1]={\"n\":0}"));
  assert_text(p->root, "[{\"n\":0},{\"n\":1},{\"n\":2},{\"n\":3}]");
  for (int64_t i = 1; i < 4; i++) {
    mp_value *moved = mp_node_value(item_at(p->root, i + 1).node);
    assert_ok(mp_node_set_index(p->root, i, moved, NULL));
    mp_value_release(p->w->env, moved);
  }
  assert_ok(write_all(p->w, p->root, "[4]=-"));
  assert_text(p->root, "[{\"n\":1},{\"n\":2},{\"n\":3}]");
  plant_free(p);
}

/*
** What table.sort does: it reads two items, then writes both; the first write makes one of the
** nodes stale.
*/
static void two_items_can_be_swapped(void **state) {
  plant *p = plant_new(*state, "[{\"n\":\"b\"},{\"n\":\"a\"}]");
  mp_node *first = mp_node_retain(item_at(p->root, 1).node);
  mp_node *second = mp_node_retain(item_at(p->root, 2).node);
  mp_value *value = mp_node_value(second);
  assert_ok(mp_node_set_index(p->root, 1, value, NULL));
  mp_value_release(p->w->env, value);
  value = mp_node_value(first);
  assert_ok(mp_node_set_index(p->root, 2, value, NULL));
  mp_value_release(p->w->env, value);
  assert_text(p->root, "[{\"n\":\"a\"},{\"n\":\"b\"}]");
  assert_true(mp_node_is_stale(first));
  assert_true(mp_node_is_stale(second));
  assert_text(first, "{\"n\":\"b\"}");
  mp_node_release(first);
  mp_node_release(second);
  plant_free(p);
}

static void an_empty_object_becomes_an_array(void **state) {
  plant *p = plant_new(*state, "{\"a\":{},\"b\":{\"x\":1}}");
  mp_node *a = down(p->root, "a");
  assert_ok(write_all(p->w, p->root, "a[1]=-; a[1]=\"x\"; b.x=-; b[1]=1"));
  assert_true(mp_node_is_array(a));
  assert_ptr_equal(down(p->root, "a"), a);
  assert_text(p->root, "{\"a\":[\"x\"],\"b\":[1]}");
  assert_ok(write_all(p->w, p->root, "a[1]=-"));
  assert_text(p->root, "{\"a\":[],\"b\":[1]}");
  plant_free(p);
}

static void writes_that_make_no_sense_are_refused(void **state) {
  plant *p = plant_new(*state, "{\"list\":[1,[2],{\"a b\":[]}],\"o\":{\"x\":1},\"e\":{}}");
  assert_refused(p, "list.x=1", "state[\"cart\"].list.x: an array has no string keys");
  assert_refused(p, "o[1]=1", "state[\"cart\"].o[1]: this is a table with string keys, it has no array items");
  assert_refused(p, "e[2]=1",
                 "state[\"cart\"].e[2]: this would leave a hole: the array has 0 items, the next one goes to [1]");
  assert_refused(p, "list[5]=1",
                 "state[\"cart\"].list[5]: this would leave a hole: the array has 3 items, the next one goes to [4]");
  assert_refused(p, "list[0]=1",
                 "state[\"cart\"].list[0]: this would leave a hole: the array has 3 items, the next one goes to [4]");
  assert_refused(p, "list[2][-9223372036854775808]=1",
                 "state[\"cart\"].list[2][-9223372036854775808]: this would leave a hole: the array has 1 item, the "
                 "next one goes to [2]");
  assert_refused(p, "list[1]=-",
                 "state[\"cart\"].list[1]: removing an item inside an array would leave a hole: use table.remove");
  assert_refused(p, "list[3].a b[3]=1",
                 "state[\"cart\"].list[3][\"a b\"][3]: this would leave a hole: the array has 0 "
                 "items, the next one goes to [1]");
  assert_false(mp_tree_is_dirty(p->root));
  plant_free(p);
}

static void the_owner_can_refuse(void **state) {
  plant *p = plant_new(*state, "{\"l\":[1],\"e\":{}}");
  static const char *const writes[] = {"x=1", "l=-", "l=2", "l[1]=-", "l[1]=2", "l+=2", "e[1]=1", "e.x=1"};
  p->w->refuses = true;
  for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
    assert_int_equal(write_one(p->w, p->root, writes[i]), MOONPAD_CLOSED);
    assert_int_equal(p->w->asked, (int)i + 1);
    assert_string_equal(p->w->error.message, "refused");
  }
  assert_text(p->root, "{\"l\":[1],\"e\":{}}");
  assert_false(mp_tree_is_dirty(p->root));
  p->w->refuses = false;
  assert_ok(write_all(p->w, p->root, "e.x=1; l+=2"));
  assert_text(p->root, "{\"e\":{\"x\":1},\"l\":[1,2]}");
  plant_free(p);
}

/* ---- Depth ---- */

static void fill_nested(char *out, unsigned depth) {
  memset(out, '[', depth);
  memset(out + depth, ']', depth);
  out[2 * (size_t)depth] = '\0';
}

static void nesting_ends_at_128(void **state) {
  world *w = *state;
  char json[600];
  fill_nested(json, 127);
  plant *p = plant_new(w, "{}");
  mp_value *fits = json_value(w, json);
  assert_ok(mp_node_set_member(p->root, moonpad_text("a"), fits, NULL));
  mp_value_release(w->env, fits);
  fill_nested(json, 128);
  mp_value *deep = json_value(w, json);
  assert_int_equal(mp_node_set_member(p->root, moonpad_text("b"), deep, &w->error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(w->error.message, "state[\"cart\"].b: the value would be nested more than 128 levels deep");
  mp_value_release(w->env, deep);
  /* Brackets in strings do not count. */
  mp_value *flat =
      json_value(w, "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[\\\\\"]");
  assert_ok(mp_node_set_member(p->root, moonpad_text("b"), flat, NULL));
  mp_value_release(w->env, flat);
  mp_node *node = down(p->root, "a");
  for (int i = 0; i < 126; i++) node = down(node, "[1]");
  assert_int_equal(mp_node_level(node), 127);
  assert_ok(append_json(w, node, "1"));
  assert_int_equal(append_json(w, node, "{}"), MOONPAD_INVALID_ARGUMENT);
  assert_non_null(strstr(w->error.message, "[1][1][2]: the value would be nested more than 128 levels deep"));
  plant_free(p);
}

/* The reason is shown however long the path is. */
static void a_long_path_loses_its_middle(void **state) {
  plant *p = plant_new(*state, "{}");
  mp_node *node = p->root;
  for (int i = 0; i < 40; i++) {
    mp_value *empty = json_value(p->w, "{}");
    assert_ok(mp_node_set_member(node,
                                 moonpad_text("Stra\xC3\x9F"
                                              "e der L\xC3\xBC"
                                              "fte"),
                                 empty, NULL));
    mp_value_release(p->w->env, empty);
    node = member(node, "Stra\xC3\x9F"
                        "e der L\xC3\xBC"
                        "fte")
               .node;
  }
  assert_int_equal(write_one(p->w, node, "[7]=1"), MOONPAD_INVALID_ARGUMENT);
  assert_memory_equal(p->w->error.message,
                      "state[\"cart\"][\"Stra\xC3\x9F"
                      "e der",
                      26);
  assert_non_null(strstr(p->w->error.message, " ... "));
  assert_non_null(strstr(p->w->error.message, "[7]: this would leave a hole"));
  plant_free(p);
}

/* ---- Paths ---- */

static void assert_path(mp_node *node, const char *expected) {
  mp_buffer out;
  mp_buffer_init(&out, mp_node_env(node));
  mp_node_path(node, &out);
  mp_buffer_add_char(&out, '\0');
  assert_false(out.failed);
  assert_string_equal(out.data, expected);
  mp_buffer_free(&out);
}

static void paths_read_like_lua(void **state) {
  plant *p = plant_new(*state, "[0,{\"name\":{\"first name\":{\"9x\":{\"_a9\":{\"\\\"\\n\":[]}}}}}]");
  assert_path(p->root, "state[\"cart\"]");
  assert_path(down(p->root, "[2].name"), "state[\"cart\"][2].name");
  assert_path(down(p->root, "[2].name.first name.9x._a9"), "state[\"cart\"][2].name[\"first name\"][\"9x\"]._a9");
  mp_node *last = member(down(p->root, "[2].name.first name.9x._a9"), "\"\n").node;
  assert_int_equal(mp_node_level(last), 6);
  mp_buffer out;
  mp_buffer_init(&out, p->w->env);
  mp_node_index_path(down(p->root, "[2]"), 3, &out);
  mp_node_member_path(p->root, moonpad_text("a"), &out);
  assert_int_equal(out.length, strlen("state[\"cart\"][2][3]state[\"cart\"].a"));
  assert_memory_equal(out.data, "state[\"cart\"][2][3]state[\"cart\"].a", out.length);
  mp_buffer_free(&out);
  plant_free(p);
}

/* ---- Staleness ---- */

static void assert_stale(world *w, mp_node *node, const char *text, const char *path) {
  char message[512];
  snprintf(message, sizeof(message),
           "%s is stale: it has been replaced or removed, read it again from the state before writing", path);
  int asked = w->asked;
  assert_true(mp_node_is_stale(node));
  assert_text(node, text);
  mp_value *value = json_value(w, "1");
  assert_int_equal(mp_node_set_member(node, moonpad_text("k"), value, &w->error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(w->error.message, message);
  assert_int_equal(mp_node_set_index(node, 1, value, &w->error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(w->error.message, message);
  mp_value_release(w->env, value);
  assert_int_equal(mp_node_set_index(node, 1, NULL, &w->error), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(mp_node_set_member(node, moonpad_text("k"), NULL, &w->error), MOONPAD_INVALID_ARGUMENT);
  assert_text(node, text);
  assert_int_equal(w->asked, asked);
}

static void what_is_replaced_is_stale_and_reads_on(void **state) {
  plant *p = plant_new(*state, "{\"a\":{\"b\":[{\"c\":1}]},\"l\":[{\"x\":1},{\"x\":2}]}");
  mp_node *a = mp_node_retain(down(p->root, "a"));
  mp_node *b = mp_node_retain(down(p->root, "a.b"));
  mp_node *x = mp_node_retain(down(p->root, "l[2]"));
  assert_ok(write_all(p->w, p->root, "a.b[1].c=2; a={\"b\":[]}; l[2]=-"));
  assert_stale(p->w, a, "{\"b\":[{\"c\":2}]}", "state[\"cart\"].a");
  assert_stale(p->w, b, "[{\"c\":2}]", "state[\"cart\"].a.b");
  assert_stale(p->w, x, "{\"x\":2}", "state[\"cart\"].l[2]");
  assert_stale(p->w, down(b, "[1]"), "{\"c\":2}", "state[\"cart\"].a.b[1]");
  assert_ptr_not_equal(down(p->root, "a"), a);
  assert_ptr_equal(down(a, "b"), b);
  mp_node_release(a);
  assert_stale(p->w, b, "[{\"c\":2}]", "state[\"cart\"].a.b");
  mp_node_release(x);
  assert_text(p->root, "{\"a\":{\"b\":[]},\"l\":[{\"x\":1}]}");
  plant_free(p);
  mp_node_release(b);
}

/*
** Nobody holds the nodes between, so they go; the one that is held finds its path before they do.
*/
static void a_descendant_outlives_those_above_it(void **state) {
  world *w = *state;
  plant *p = plant_new(w, "{\"a\":[{\"b\":{\"c\":{\"d\":1}}}]}");
  mp_node *c = mp_node_retain(down(p->root, "a[1].b.c"));
  assert_ok(write_all(w, p->root, "a=-"));
  assert_stale(w, c, "{\"d\":1}", "state[\"cart\"].a[1].b.c");
  plant_free(p);
  assert_stale(w, c, "{\"d\":1}", "state[\"cart\"].a[1].b.c");
  mp_node_release(c);
}

static void a_detached_tree_is_stale(void **state) {
  world *w = *state;
  plant *p = plant_new(w, "{\"a\":{\"b\":1}}");
  mp_node *root = mp_node_retain(p->root);
  mp_node *a = mp_node_retain(down(p->root, "a"));
  assert_false(mp_node_is_stale(a));
  plant_free(p);
  assert_stale(w, root, "{\"a\":{\"b\":1}}", "state[\"cart\"]");
  assert_stale(w, a, "{\"b\":1}", "state[\"cart\"].a");
  mp_node_release(root);
  assert_stale(w, a, "{\"b\":1}", "state[\"cart\"].a");
  mp_node_release(a);
}

static void a_stale_node_without_a_label_still_explains_itself(void **state) {
  world *w = *state;
  plant *p = plant_new(w, "{\"a\":{\"b\":1}}");
  mp_node *a = mp_node_retain(down(p->root, "a"));
  down(p->root, "a");
  counting_arm_lasting(&w->memory, 1);
  assert_ok(mp_node_set_member(p->root, moonpad_text("a"), NULL, NULL));
  counting_disarm(&w->memory);
  assert_stale(w, a, "{\"b\":1}", "a part of state[\"cart\"]");
  mp_node_release(a);
  plant_free(p);
}

/* ---- Clean ---- */

/* Keys that come and go must not pile up between two clean states. */
static void removed_members_take_no_room(void **state) {
  plant *p = plant_new(*state, "{\"stay\":{}}");
  mp_node *stay = down(p->root, "stay");
  char statement[64];
  size_t before = 0;
  for (int i = 0; i < 20000; i++) {
    snprintf(statement, sizeof(statement), "k%d=1", i);
    assert_ok(write_one(p->w, p->root, statement));
    snprintf(statement, sizeof(statement), "k%d=-", i);
    assert_ok(write_one(p->w, p->root, statement));
    if (i == 100) before = p->w->memory.alive;
  }
  assert_true(p->w->memory.alive < before + 100);
  assert_ptr_equal(down(p->root, "stay"), stay);
  assert_ok(write_all(p->w, stay, "x=1"));
  assert_text(p->root, "{\"stay\":{\"x\":1}}");
  plant_free(p);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_world, tear_down_world)
  const struct CMUnitTest tests[] = {
      TEST(every_scalar_is_read_with_its_type),
      TEST(items_are_numbered_from_one),
      TEST(keys_are_found_whatever_they_hold),
      TEST(many_members_are_found_and_walked),
      TEST(positions_stay_right_while_members_come_and_go),
      TEST(what_was_not_written_keeps_its_text),
      TEST(values_are_shared_and_never_changed),
      TEST(the_same_path_is_the_same_node),
      TEST(children_are_found_after_holes_are_closed),
      TEST(objects_are_written),
      TEST(arrays_are_written),
      TEST(items_shift_as_table_insert_and_remove_do),
      TEST(two_items_can_be_swapped),
      TEST(an_empty_object_becomes_an_array),
      TEST(writes_that_make_no_sense_are_refused),
      TEST(the_owner_can_refuse),
      TEST(nesting_ends_at_128),
      TEST(a_long_path_loses_its_middle),
      TEST(paths_read_like_lua),
      TEST(what_is_replaced_is_stale_and_reads_on),
      TEST(a_descendant_outlives_those_above_it),
      TEST(a_detached_tree_is_stale),
      TEST(a_stale_node_without_a_label_still_explains_itself),
      TEST(removed_members_take_no_room),
  };
  return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
