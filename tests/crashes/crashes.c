/* For tests/crashes/crashes.lua: records what SQLite writes, and crashes at each place of that. See crashes.h.
 *
 *   crashes.record()                 a recorder, until recorder:stop()
 *   recorder:mark(n)  :fill(first, count)  :fail_sync(first)  :counts() -> writes, syncs
 *   recorder:stop() -> log
 *   log:kept(f)                      f(operation, hash, bytes) or f(operation, nil, code): what SQLite finds after a
 *                                    crash that loses nothing, after each operation
 *   log:marks() -> { operation, number, ... }
 *   log:counts() -> { writes = ..., syncs = ..., ... }
 *   log:crash(hashes, needed, seed, share, before, seen) -> result
 *                                    tries up to `share` crashes at each place, after `before` at the last call. `hashes`: of the states that are right,
 *                                    from the first to the last; `needed`: { operation, state, ... }: from this
 *                                    operation on, at least this state
 *   crashes.seen() -> seen           the different crashes so far; #seen says how many */
#include "crashes.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>

/* ---- crashes at a place ---- */

#define FAILURES_SHOWN 5

typedef struct Run {
  lua_State *L;
  Place *place;
  Table right; /* the number of each state */
  Table *seen;
  Disk disk;
  unsigned char *fates;
  size_t parts, writes;
  int64_t operation, needed;
  uint64_t random, log_id;
  int64_t tried, failures, share, before, left; /* before: the last share; left: at this place */
  int64_t kinds[3];                             /* parts that were lost, kept, garbage */
} Run;

static uint64_t next_random(Run *run) {
  run->random = run->random * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = run->random;
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  return x ^ x >> 33;
}

static void tell(Run *run, int code, int64_t state, size_t names) {
  if (++run->failures > FAILURES_SHOWN) return;
  lua_State *L = run->L;
  lua_createtable(L, 0, 6);
  lua_pushinteger(L, run->operation);
  lua_setfield(L, -2, "operation");
  lua_pushinteger(L, code);
  lua_setfield(L, -2, "code");
  lua_pushinteger(L, state);
  lua_setfield(L, -2, "state");
  lua_pushinteger(L, run->needed);
  lua_setfield(L, -2, "needed");
  lua_pushinteger(L, (lua_Integer)names);
  lua_setfield(L, -2, "names");
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  for (size_t i = 0; i < run->parts; i++) luaL_addchar(&text, "-x?"[run->fates[i]]);
  luaL_pushresult(&text);
  lua_setfield(L, -2, "fates");
  lua_rawseti(L, -2, run->failures);
}

/* One crash, with the fates of run->fates. */
static void crash(Run *run, size_t names) {
  Crash one = {run->fates, names, run->random};
  run->tried++;
  run->left--;
  uint64_t hash = place_hash(run->place, &one) ^ (uint64_t)run->needed * 0x9e3779b97f4a7c15u;
  if (!table_put(run->seen, mixed(hash + run->log_id), 0)) return;
  place_crash(run->place, &one, &run->disk);
  for (size_t i = 0; i < run->parts; i++) run->kinds[run->fates[i]]++;
  int code = image_recover(&run->disk);
  int64_t state = -1;
  if (code == SQLITE_OK) state = table_get(&run->right, pages_hash(&run->disk.files[FILE_DATABASE]));
  if (state < run->needed) tell(run, code, state, names);
}

static void set_all(Run *run, Fate fate) { memset(run->fates, (int)fate, run->parts); }

static void set_write(Run *run, size_t write, Fate fate) {
  for (size_t i = 0; i < run->parts; i++)
    if (place_write_of(run->place, i) == write) run->fates[i] = (unsigned char)fate;
}

/* All ways in which each part, or each write, is lost or kept. */
static void crash_all_subsets(Run *run, size_t n, bool of_writes, size_t names) {
  for (uint64_t bits = 0; bits < (uint64_t)1 << n; bits++) {
    if (!of_writes)
      for (size_t i = 0; i < n; i++) run->fates[i] = bits >> i & 1 ? PART_KEPT : PART_LOST;
    else
      for (size_t i = 0; i < n; i++) set_write(run, i, bits >> i & 1 ? PART_KEPT : PART_LOST);
    crash(run, names);
  }
}

/* The disk has written in order, or in the other order, up to a part; all but one; only one. What is left out has its old
 * contents, or garbage. */
static void crash_in_order(Run *run, size_t names) {
  for (int i = 0; i < 2; i++) {
    Fate missing = i == 0 ? PART_LOST : PART_GARBAGE;
    set_all(run, missing);
    crash(run, names);
    for (size_t k = 0; k < run->parts; k++) {
      run->fates[k] = PART_KEPT;
      crash(run, names);
    }
    for (size_t k = 0; k < run->parts; k++) {
      run->fates[k] = (unsigned char)missing;
      crash(run, names);
    }
    for (size_t k = 0; k < run->parts; k++) {
      set_all(run, PART_KEPT);
      run->fates[k] = (unsigned char)missing;
      crash(run, names);
      set_all(run, missing);
      run->fates[k] = PART_KEPT;
      crash(run, names);
    }
  }
}

/* Random ones: whole writes, with one that is torn, or each part for itself. */
static void crash_at_random(Run *run, size_t names) {
  static const unsigned ODDS[] = {2, 10, 50, 90, 98};
  unsigned odds = ODDS[next_random(run) % 5], garbage = next_random(run) % 4 == 0 ? 30 : 0;
  bool whole = next_random(run) % 2 == 0;
  size_t torn = run->writes > 0 ? next_random(run) % run->writes : 0, last = SIZE_MAX;
  Fate fate = PART_LOST;
  for (size_t i = 0; i < run->parts; i++) {
    size_t write = place_write_of(run->place, i);
    if (!whole || write == torn || write != last) {
      bool kept = next_random(run) % 100 < odds;
      fate = kept ? PART_KEPT : next_random(run) % 100 < garbage ? PART_GARBAGE : PART_LOST;
    }
    last = write;
    run->fates[i] = (unsigned char)fate;
  }
  crash(run, names);
}

/* Returns whether all ways were tried, but for garbage. Then they are not tried again. */
static bool crash_here(Run *run, bool is_again) {
  size_t names = place_names(run->place);
  bool is_all = false;
  run->parts = place_parts(run->place);
  run->writes = place_writes(run->place);
  run->fates = larger(run->fates, run->parts + 1);
  run->left = run->share;
  for (size_t n = 0; n <= names; n++) {
    bool few = run->parts < 20 && (int64_t)1 << run->parts <= run->share;
    if (few && is_again && (int64_t)1 << run->parts <= run->before) return true;
    if (few) crash_all_subsets(run, run->parts, false, n);
    else if (run->writes < 20 && (int64_t)1 << run->writes <= run->share / 2)
      crash_all_subsets(run, run->writes, true, n);
    is_all = few;
    if (6 * (int64_t)run->parts < run->share) crash_in_order(run, n);
  }
  while (run->left > 0 && run->parts > 0) crash_at_random(run, next_random(run) % (names + 1));
  return is_all;
}

/* ---- for Lua ---- */

static Log *check_log(lua_State *L) { return luaL_checkudata(L, 1, "crashes.log"); }

static int log_collect(lua_State *L) {
  log_free(check_log(L));
  return 0;
}

/* What the files have after one more operation, if nothing is lost. */
static void perform(const Op *op, Bytes *files, int current[FILE_NAMES]) {
  Bytes *bytes = &files[op->file];
  if (op->kind == OP_CREATE) current[op->name] = op->file;
  if (op->kind == OP_DELETE) current[op->name] = -1;
  if (op->kind == OP_TRUNCATE) bytes_resize(bytes, (size_t)op->at);
  if (op->kind == OP_WRITE) bytes_write(bytes, (size_t)op->at, op->data, (size_t)op->size);
}

static int log_kept(lua_State *L) {
  Log *log = check_log(L);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  image_prepare();
  Disk disk = {0};
  int current[FILE_NAMES] = {-1, -1, -1};
  Bytes *files = calloc((size_t)log->files + 1, sizeof *files);
  if (!files) abort();
  for (size_t n = 0; n <= log->count; n++) {
    if (n > 0) perform(&log->ops[n - 1], files, current);
    if (n > 0 && (log->ops[n - 1].kind == OP_SYNC || log->ops[n - 1].kind == OP_DIRECTORY)) continue;
    for (int i = 0; i < FILE_NAMES; i++) {
      disk.exists[i] = current[i] >= 0;
      if (current[i] >= 0) bytes_copy(&disk.files[i], &files[current[i]]);
    }
    int code = image_recover(&disk);
    const Bytes *found = &disk.files[FILE_DATABASE];
    lua_pushvalue(L, 2);
    lua_pushinteger(L, (lua_Integer)n);
    if (code == SQLITE_OK) {
      lua_pushinteger(L, (lua_Integer)pages_hash(found));
      lua_pushlstring(L, found->size > 0 ? (const char *)found->data : "", found->size);
    } else {
      lua_pushnil(L);
      lua_pushinteger(L, code);
    }
    if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
      lua_pushliteral(L, "kept: ");
      lua_insert(L, -2);
      lua_concat(L, 2);
      break;
    }
  }
  bool has_failed = lua_gettop(L) > 2;
  for (int i = 0; i < log->files; i++) free(files[i].data);
  free(files);
  disk_free(&disk);
  return has_failed ? lua_error(L) : 0;
}

static int log_marks(lua_State *L) {
  Log *log = check_log(L);
  lua_newtable(L);
  for (size_t i = 0; i < log->count; i++) {
    if (log->ops[i].kind != OP_MARK) continue;
    lua_pushinteger(L, (lua_Integer)i);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pushinteger(L, log->ops[i].at);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  return 1;
}

static int log_counts(lua_State *L) {
  Log *log = check_log(L);
  static const char *const NAMES[FILE_NAMES] = {"database", "log", "journal"};
  static const char *const KINDS[] = {"creations", "deletions",    "writes of the",          "truncations",
                                      "syncs",     "failed syncs", "syncs of the directory", "acknowledgements"};
  lua_newtable(L);
  for (size_t i = 0; i < log->count; i++) {
    const Op *op = &log->ops[i];
    const char *name = KINDS[op->kind];
    if (op->kind == OP_WRITE) lua_pushfstring(L, "%s %s", name, NAMES[op->name]);
    else lua_pushstring(L, name);
    lua_pushvalue(L, -1);
    lua_Integer n = lua_rawget(L, -3) == LUA_TNUMBER ? lua_tointeger(L, -1) : 0;
    lua_pop(L, 1);
    lua_pushinteger(L, n + 1);
    lua_rawset(L, -3);
  }
  return 1;
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, name);
}

static int log_crash(lua_State *L) {
  Log *log = check_log(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  Run run = {.L = L, .random = (uint64_t)luaL_checkinteger(L, 4), .share = luaL_checkinteger(L, 5)};
  run.before = luaL_checkinteger(L, 6);
  run.seen = luaL_checkudata(L, 7, "crashes.seen");
  run.log_id = (uint64_t)(uintptr_t)log->ops ^ log->count << 48;
  image_prepare();
  for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 2); i++) {
    lua_rawgeti(L, 2, i);
    table_put(&run.right, (uint64_t)lua_tointeger(L, -1), i);
    lua_pop(L, 1);
  }
  lua_newtable(L); /* the failures */
  Place *place = place_new(log);
  run.place = place;
  int64_t places = 0, complete = 0, most = 0;
  lua_Integer at = 1, count = (lua_Integer)lua_rawlen(L, 3);
  for (int64_t n = place_next(place); n >= 0; n = place_next(place)) {
    while (at < count) { /* what the program was told before this place */
      lua_rawgeti(L, 3, at);
      bool is_before = lua_tointeger(L, -1) < n;
      lua_pop(L, 1);
      if (!is_before) break;
      lua_rawgeti(L, 3, at + 1);
      if (lua_tointeger(L, -1) > run.needed) run.needed = lua_tointeger(L, -1);
      lua_pop(L, 1);
      at += 2;
    }
    run.operation = n;
    places++;
    if (crash_here(&run, run.before > 0)) complete++;
    if ((int64_t)run.parts > most) most = (int64_t)run.parts;
  }
  place_free(place);
  free(run.fates);
  free(run.right.entries);
  disk_free(&run.disk);
  lua_createtable(L, 0, 10);
  lua_insert(L, -2);
  lua_setfield(L, -2, "shown");
  set_integer(L, "tried", run.tried);
  set_integer(L, "failures", run.failures);
  set_integer(L, "places", places);
  set_integer(L, "complete", complete);
  set_integer(L, "most", most);
  set_integer(L, "lost", run.kinds[PART_LOST]);
  set_integer(L, "kept", run.kinds[PART_KEPT]);
  set_integer(L, "garbage", run.kinds[PART_GARBAGE]);
  return 1;
}

static Recorder *check_recorder(lua_State *L) {
  Recorder **recorder = luaL_checkudata(L, 1, "crashes.recorder");
  if (!*recorder) luaL_error(L, "the recorder has stopped");
  return *recorder;
}

static int on_mark(lua_State *L) {
  recorder_mark(check_recorder(L), luaL_checkinteger(L, 2));
  return 0;
}

static int on_fill(lua_State *L) {
  recorder_fill(check_recorder(L), luaL_checkinteger(L, 2), luaL_checkinteger(L, 3));
  return 0;
}

static int on_fail_sync(lua_State *L) {
  recorder_fail_sync(check_recorder(L), luaL_checkinteger(L, 2));
  return 0;
}

static int on_counts(lua_State *L) {
  int64_t writes, syncs;
  recorder_counts(check_recorder(L), &writes, &syncs);
  lua_pushinteger(L, (lua_Integer)writes);
  lua_pushinteger(L, (lua_Integer)syncs);
  return 2;
}

static int on_stop(lua_State *L) {
  Recorder *recorder = check_recorder(L);
  Log *log = lua_newuserdatauv(L, sizeof *log, 0);
  *log = recorder_stop(recorder);
  *(Recorder **)lua_touserdata(L, 1) = NULL;
  luaL_setmetatable(L, "crashes.log");
  return 1;
}

static int record(lua_State *L) {
  Recorder **recorder = lua_newuserdatauv(L, sizeof(Recorder *), 0);
  *recorder = recorder_start();
  luaL_setmetatable(L, "crashes.recorder");
  return 1;
}

static int new_seen(lua_State *L) {
  Table *table = lua_newuserdatauv(L, sizeof *table, 0);
  *table = (Table){0};
  luaL_setmetatable(L, "crashes.seen");
  return 1;
}

static int seen_count(lua_State *L) {
  Table *table = luaL_checkudata(L, 1, "crashes.seen");
  lua_pushinteger(L, (lua_Integer)table->count);
  return 1;
}

static int seen_collect(lua_State *L) {
  Table *table = luaL_checkudata(L, 1, "crashes.seen");
  free(table->entries);
  *table = (Table){0};
  return 0;
}

static void add_class(lua_State *L, const char *name, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

__attribute__((visibility("default"))) int luaopen_crashes(lua_State *L);
int luaopen_crashes(lua_State *L) {
  static const luaL_Reg OF_LOG[] = {{"kept", log_kept},   {"marks", log_marks},  {"counts", log_counts},
                                    {"crash", log_crash}, {"__gc", log_collect}, {NULL, NULL}};
  static const luaL_Reg OF_RECORDER[] = {{"mark", on_mark},     {"fill", on_fill}, {"fail_sync", on_fail_sync},
                                         {"counts", on_counts}, {"stop", on_stop}, {NULL, NULL}};
  static const luaL_Reg OF_SEEN[] = {{"__len", seen_count}, {"__gc", seen_collect}, {NULL, NULL}};
  static const luaL_Reg FUNCTIONS[] = {{"record", record}, {"seen", new_seen}, {NULL, NULL}};
  add_class(L, "crashes.log", OF_LOG);
  add_class(L, "crashes.recorder", OF_RECORDER);
  add_class(L, "crashes.seen", OF_SEEN);
  luaL_newlib(L, FUNCTIONS);
  return 1;
}
