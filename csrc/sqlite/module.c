/* module.c: runnel.sqlite.core, the C module under lua/runnel/sqlite.lua. Its functions check little: the Lua module
   does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/process.h"
#include "sqlite/database.h"

static void wake(void *data) { thread_wake(&((Database *)data)->thread); }

static void drop_all(List *list) {
  Job *job;
  while ((job = job_take(list)) != NULL) handle_release(job);
}

/* HandleType.close */
static void close_database(lua_State *L, void *object) {
  Database *db = (Database *)object;
  if (!db->path) return; /* module_open has failed */
  db->is_closed = true;
  (void)db->rn->task_cancel(&db->wake);
  thread_end(&db->thread);
  (void)disk_enter(db->disk, L);
  batch_close(db);
  disk_close(L, db->disk);
  events_close(&db->events);
  drop_all(&db->asked);
  drop_all(&db->inner);
  drop_all(&db->done);
  limits_drop(db);
}

/* HandleType.free */
static void free_database(void *object) {
  Database *db = (Database *)object;
  if (db->path) {
    thread_close(&db->thread);
    events_free(&db->events);
    (void)pthread_mutex_destroy(&db->lock);
    (void)pthread_mutex_destroy(&db->use);
    disk_free(db->disk);
  }
  free(db->path);
  free(db->folder);
  free(db->problem);
  free(db);
}

static const HandleType database_type = {DATABASE_TYPE, close_database, free_database};

/* open(events, offer, close, path, is_readonly, creates, busy_ms, disk) -> database, whose first job must be an "open".
   The first three arguments are the channel of its port, which stays empty; a function that offers a value to a
   channel; and one that closes a channel. `disk`: nil, or a function; see disk.c. */
static int module_open(lua_State *L) {
  size_t size;
  const char *path = luaL_checklstring(L, 4, &size);
  lua_settop(L, 8);
  const runnel_functions *rn = runnel_get_functions(L);
  Database *db = (Database *)handle_new(L, &database_type, sizeof *db, DATABASE_VALUES);
  const char *folder = getenv("TMPDIR");
  if (!folder || !*folder) folder = "/tmp";
  size_t length = strlen(folder) + 1;
  db->folder = (char *)malloc(length);
  db->path = db->folder ? (char *)malloc(size + 1) : NULL;
  if (!db->path) return luaL_error(L, "not enough memory");
  memcpy(db->folder, folder, length);
  memcpy(db->path, path, size + 1);
  db->rn = rn;
  db->wake = (runnel_task){.run = wake, .data = db};
  db->flags = SQLITE_OPEN_NOMUTEX;
  if (lua_toboolean(L, 5)) db->flags |= SQLITE_OPEN_READONLY;
  else db->flags |= SQLITE_OPEN_READWRITE | (lua_toboolean(L, 6) ? SQLITE_OPEN_CREATE : 0);
  db->busy_ms = (int64_t)lua_tointeger(L, 7);
  db->looks_at = INT64_MAX;
  (void)pthread_mutex_init(&db->lock, NULL);
  (void)pthread_mutex_init(&db->use, NULL);
  events_init(&db->events, rn, db, news_deliver, &db->thread);
  if (!thread_open(&db->thread)) { /* without a position: Lua adds that of the program */
    lua_pushfstring(L, "cannot make a file descriptor: %s", strerror(errno));
    return lua_error(L);
  }
  if (!lua_isnil(L, 8)) disk_open(L, db, 8);
  lua_newtable(L);
  lua_setiuservalue(L, 9, DATABASE_CHANNELS);
  for (int i = 1; i <= 3; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 9, DATABASE_EVENTS + i - 1);
  }
  return 1;
}

/* database:close(): ends its thread. Jobs that have not begun do not run. */
static int module_close(lua_State *L) {
  handle_close(L, 1, DATABASE_TYPE);
  return 0;
}

static lua_Integer ms_of(clockid_t clock) {
  struct timespec time;
  (void)clock_gettime(clock, &time);
  return (lua_Integer)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* A clock that nobody sets, and that goes on while the machine is suspended, where there is one. */
#ifdef CLOCK_BOOTTIME
#define STEADY CLOCK_BOOTTIME
#else
#define STEADY CLOCK_MONOTONIC
#endif

/* clock() -> ms since about the start of the machine, by a clock that nobody can set; ms since 1970 */
static int module_clock(lua_State *L) {
  lua_pushinteger(L, ms_of(STEADY));
  lua_pushinteger(L, ms_of(CLOCK_REALTIME));
  return 2;
}

/* seed(n): SQLite's random numbers, of all connections, are those of this seed; seed(): they are those of the system
   again */
static int module_seed(lua_State *L) {
  if (lua_isnoneornil(L, 1)) sqlite3_randomness(0, NULL);
  else (void)sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(luaL_checkinteger(L, 1) & 0x7fffffff) | 1, NULL);
  return 0;
}

int luaopen_runnel_sqlite_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"clock", module_clock}, {"locks", locks_new}, {"memory", disk_memory},
                                       {"open", module_open},   {"plain", ask_plain}, {"process", process_push},
                                       {"seed", module_seed},   {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"alive", limits_alive}, {"ask", ask_job},     {"close", module_close},  {"here", here_run}, {"limit", ask_limit},
      {"many", ask_many},      {"start", ask_start}, {"waiting", ask_waiting}, {"work", ask_work}, {NULL, NULL}};
  luaL_checkversion(L);
  (void)runnel_get_functions(L);
  handle_open(L, &database_type, methods);
  ask_open(L);
  disk_init(L);
  locks_open(L);
  luaL_newlib(L, functions);
  lua_pushstring(L, sqlite3_libversion());
  lua_setfield(L, -2, "version");
  return 1;
}
