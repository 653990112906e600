/* ask.c: the methods with which Lua asks for statements, and gets their results; see database.h. The Lua thread. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite/database.h"

/* ---- making a job ---- */

/* The first argument of database:ask that is a value for a parameter. */
enum { FIRST_VALUE = 8 };

static const char *const kinds[] = {"open",  "exec",   "rows",     "one",   "last",
                                    "begin", "commit", "rollback", "close", NULL};

/* The first value of database:limit. */
enum { FIRST_OF_LIMIT = 5 };

/* The longest limit, in ms: a hundred years. */
#define LONGEST_LIMIT 3155760000000.0

/* Copies the string at an index, and a zero byte, to *memory, and moves *memory behind them. Without `memory` the string
   stays where it is. */
static const char *copy_string(lua_State *L, int at, char **memory, size_t *size) {
  const char *bytes = lua_tolstring(L, at, size);
  if (!memory) return bytes;
  char *copy = *memory;
  memcpy(copy, bytes, *size + 1);
  *memory += *size + 1;
  return copy;
}

/* The number of bytes that the argument at an index needs in Job.memory. */
static size_t size_of(lua_State *L, int at) {
  if (lua_type(L, at) == LUA_TSTRING) return (size_t)lua_rawlen(L, at) + 1;
  if (lua_type(L, at) != LUA_TTABLE) return 0;
  size_t size = lua_rawgeti(L, at, 1) == LUA_TSTRING ? (size_t)lua_rawlen(L, -1) + 1 : 0;
  lua_pop(L, 1);
  return size;
}

/* See database.h. */
void ask_value(lua_State *L, int at, Value *value, char **memory) {
  switch (lua_type(L, at)) {
  case LUA_TBOOLEAN:
    value->kind = VALUE_INTEGER;
    value->integer = lua_toboolean(L, at);
    break;
  case LUA_TNUMBER:
    value->kind = lua_isinteger(L, at) ? VALUE_INTEGER : VALUE_FLOAT;
    if (lua_isinteger(L, at)) value->integer = (sqlite3_int64)lua_tointeger(L, at);
    else value->number = (double)lua_tonumber(L, at);
    break;
  case LUA_TSTRING:
    value->kind = VALUE_TEXT;
    value->bytes = copy_string(L, at, memory, &value->size);
    break;
  case LUA_TTABLE:
    value->kind = VALUE_BLOB;
    (void)lua_rawgeti(L, at, 1);
    value->bytes = copy_string(L, -1, memory, &value->size);
    lua_pop(L, 1);
    break;
  default:
    value->kind = VALUE_NULL;
  }
}

/* plain(...) -> whether all arguments are values that a statement takes, and none of them is a table: nil, booleans,
   strings, and numbers but for nan. */
int ask_plain(lua_State *L) {
  bool is_plain = true;
  for (int at = lua_gettop(L); at > 0 && is_plain; at--) {
    int type = lua_type(L, at);
    bool is_nan = type == LUA_TNUMBER && isnan(lua_tonumber(L, at));
    is_plain = (type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING) && !is_nan;
  }
  lua_pushboolean(L, is_plain);
  return 1;
}

/* Copies to the job the statement at index 3 and the values at `first` to `top`; with `named`, each value follows its
   name. Returns the memory behind them, of `more` bytes; NULL if there is none. */
static char *copy(lua_State *L, Job *job, bool named, int first, int top, size_t more) {
  size_t n = (size_t)(top - first + 1) / (named ? 2 : 1), size = n * sizeof(Value) + more;
  if (lua_isstring(L, 3)) size += (size_t)lua_rawlen(L, 3) + 1;
  for (int at = first; at <= top; at++) size += size_of(L, at);
  job->memory = calloc(1, size + 1);
  if (!job->memory) return NULL;
  job->values = (Value *)job->memory;
  job->nvalues = n;
  char *memory = (char *)(job->values + n);
  if (lua_isstring(L, 3)) job->sql = copy_string(L, 3, &memory, &job->sql_size);
  int at = first;
  for (size_t i = 0; i < n; i++) {
    size_t ignored;
    if (named) job->values[i].name = copy_string(L, at++, &memory, &ignored);
    ask_value(L, at++, &job->values[i], &memory);
  }
  return memory;
}

/* ---- its way to the thread and back ---- */

/* Makes the database's thread work. In a simulation Lua does it, by `ask_work`. */
static void wake(lua_State *L, Job *job) {
  Database *db = job->database;
  if (job->is_here) return;
  /* One wakeup for the jobs of all ready go blocks. */
  if (db->rn->task_add(L, &db->wake) != RUNNEL_OK) thread_wake(&db->thread);
}

/* See database.h. */
int ask_work(lua_State *L) {
  Database *db = (Database *)handle_get(L, 1, DATABASE_TYPE);
  if (!db || thread_ends(&db->thread)) return 0;
  lua_State *before = disk_enter(db->disk, L);
  batch_work_here(db, lua_toboolean(L, 2));
  (void)disk_enter(db->disk, before);
  lua_pushcfunction(L, news_deliver);
  lua_pushlightuserdata(L, db);
  (void)lua_pcall(L, 1, 0, 0);
  return 0;
}

/* See database.h. */
int ask_waiting(lua_State *L) {
  Database *db = (Database *)handle_get(L, 1, DATABASE_TYPE);
  lua_pushinteger(L, db && !thread_ends(&db->thread) ? (lua_Integer)batch_waiting(db) : 0);
  return 1;
}

/* Registers the job's channel, which is at index 4, and starts the thread and the events. Raises on failure, and then
   closes the job, which is at an index, so that the database can go. */
static void wait_for(lua_State *L, Job *job, int at) {
  Database *db = job->database;
  int top = lua_gettop(L);
  lua_pushvalue(L, 1);
  handle_keep(L, db);
  lua_getiuservalue(L, 1, DATABASE_CHANNELS);
  lua_pushvalue(L, 4);
  int ref = luaL_ref(L, top + 2); /* the last call that may raise, apart from the errors below */
  int error = job->is_here ? 0 : thread_start(&db->thread, "runnel-sqlite", batch_run, db);
  lua_getiuservalue(L, 1, DATABASE_EVENTS);
  int code = error || job->is_here ? RUNNEL_OK : events_open(L, &db->events, -1, RUNNEL_LEAVE_OPEN);
  if (error || code != RUNNEL_OK) {
    luaL_unref(L, top + 2, ref); /* seldom covered: the system has no thread left, or memory runs out */
    if (db->under_way == 0) handle_forget(L, db);
    const runnel_functions *rn = db->rn;
    handle_close(L, at, JOB_TYPE);
    if (!error) {
      (void)events_refuse(L, rn, code);
      return; /* uncovered: it has raised, which the analyzer does not know */
    }
    lua_pushfstring(L, "cannot start a thread: %s", strerror(error));
    (void)lua_error(L);
  }
  lua_settop(L, top);
  job->ref = ref;
  db->under_way++;
}

/* Puts a job on the list of those to run, and makes the thread run it. */
static void start(lua_State *L, Job *job) {
  Database *db = job->database;
  (void)handle_hold(job); /* the list's */
  database_lock(db);
  list_append(job->tx && job->kind != JOB_BEGIN ? &db->inner : &db->asked, &job->link);
  database_unlock(db);
  wake(L, job);
}

/* Rolls back the transaction that a job has begun; or keeps the job from beginning it. */
static void end_transaction(lua_State *L, Job *job) {
  Database *db = job->database;
  database_lock(db);
  bool is_begun = db->tx == job->tx && !db->is_closed; /* closing the database has rolled it back */
  if (is_begun) {
    job->kind = JOB_ROLLBACK;
    if (job->link.next) list_remove(&db->done, &job->link); /* Lua has not been told yet */
    else (void)handle_hold(job);
    list_append(&db->inner, &job->link);
  } else {
    atomic_store(&job->is_cancelled, true);
  }
  database_unlock(db);
  if (is_begun) wake(L, job);
}

/* HandleType.close */
static void close_job(lua_State *L, void *object) {
  Job *job = (Job *)object;
  if (!job->database) return;
  news_leave(L, job);
  if (job->kind == JOB_LIMIT) limits_remove(job->database, job);
  else if (job->kind == JOB_BEGIN) end_transaction(L, job);
  else atomic_store(&job->is_cancelled, true);
}

static const HandleType job_type = {JOB_TYPE, close_job, job_free};

/* database:ask(kind, sql, channel, tx, is_here, named, ...) -> job: starts a job, of any JobKind. When it is done, true
   is put on the channel. `tx` is the number of the transaction that it belongs to, begins or ends, or 0. With `is_here`
   no thread runs it, but database:work. The other arguments are the values of parameters, a blob as a table with a string; with
   `named` each follows its name. */
int ask_job(lua_State *L) {
  Database *db = (Database *)handle_get(L, 1, DATABASE_TYPE);
  int kind = luaL_checkoption(L, 2, NULL, kinds), top = lua_gettop(L);
  lua_Integer tx = luaL_checkinteger(L, 5);
  if (!db || thread_ends(&db->thread)) return luaL_error(L, "the database is closed");
  if (top < FIRST_VALUE - 1) return luaL_error(L, "too few arguments");
  Job *job = (Job *)handle_new(L, &job_type, sizeof *job, 0);
  job->database = (Database *)handle_hold(db);
  job->kind = (JobKind)kind;
  job->tx = tx;
  job->asked = clock_ms();
  job->ref = LUA_NOREF;
  job->is_here = lua_toboolean(L, 6);
  job->form = lua_toboolean(L, 7) ? ROWS_NAMED : ROWS_LIST;
  if (!copy(L, job, lua_toboolean(L, 7), FIRST_VALUE, top, 0)) return luaL_error(L, "not enough memory");
  wait_for(L, job, lua_gettop(L));
  start(L, job);
  return 1;
}

/* database:many(sql, tx, is_here, before) -> job: a job that runs the statement once for each row of many_add, all of
   them or none. It begins by database:start. The arguments are those of database:ask; and how many rows of the same call
   earlier jobs had. */
int ask_many(lua_State *L) {
  Database *db = (Database *)handle_get(L, 1, DATABASE_TYPE);
  lua_Integer tx = luaL_checkinteger(L, 3), before = luaL_checkinteger(L, 5);
  (void)luaL_checkstring(L, 2);
  if (!db || thread_ends(&db->thread)) return luaL_error(L, "the database is closed");
  bool is_here = lua_toboolean(L, 4);
  lua_settop(L, 2);
  lua_pushvalue(L, 2); /* the statement is at index 3 */
  Job *job = (Job *)handle_new(L, &job_type, sizeof *job, 1);
  job->database = (Database *)handle_hold(db);
  job->kind = JOB_EXEC;
  job->tx = tx;
  job->asked = clock_ms();
  job->ref = LUA_NOREF;
  job->is_here = is_here;
  job->is_told = true;
  job->is_many = true;
  job->before = before;
  if (!copy(L, job, false, 1, 0, 0)) return luaL_error(L, "not enough memory");
  lua_newtable(L); /* the numbers of names */
  lua_setiuservalue(L, 4, 1);
  return 1;
}

/* See database.h. */
int ask_start(lua_State *L) {
  Database *db = (Database *)handle_check(L, 1, DATABASE_TYPE);
  Job *job = (Job *)handle_check(L, 2, JOB_TYPE);
  if (!job->is_told || job->database != db) return luaL_error(L, "the statement has not ended");
  lua_settop(L, 3);
  lua_pushnil(L);
  lua_insert(L, 3); /* the channel is at index 4 */
  wait_for(L, job, 2);
  job_reset(job);
  job->is_told = false;
  start(L, job);
  return 0;
}

/* database:limit(ms, sql, text, ...) -> job: a time limit from now until the job is closed. If Lua has not run code for
   longer than that, runs the statement with the values, writes the text to stderr, and ends the process. */
int ask_limit(lua_State *L) {
  Database *db = (Database *)handle_get(L, 1, DATABASE_TYPE);
  size_t size;
  int top = lua_gettop(L);
  lua_Number ms = luaL_checknumber(L, 2);
  (void)luaL_checkstring(L, 3);
  (void)luaL_checklstring(L, 4, &size);
  if (!db || thread_ends(&db->thread)) return luaL_error(L, "the database is closed");
  Job *job = (Job *)handle_new(L, &job_type, sizeof *job, 0);
  job->database = (Database *)handle_hold(db);
  job->kind = JOB_LIMIT;
  job->asked = clock_ms();
  job->ms = (int64_t)(ms < LONGEST_LIMIT ? ms : LONGEST_LIMIT);
  job->ref = LUA_NOREF;
  char *memory = copy(L, job, false, FIRST_OF_LIMIT, top, size + 1);
  if (!memory) return luaL_error(L, "not enough memory");
  job->text = copy_string(L, 4, &memory, &size);
  job->is_limited = true;
  (void)handle_hold(job); /* the list's */
  limits_add(db, job);
  return 1;
}

/* job:close(), also its __close: cancels the job. It does not run, or is interrupted; a transaction that it has begun
   is rolled back, unless it was committed. */
static int job_close(lua_State *L) {
  handle_close(L, 1, JOB_TYPE);
  return 0;
}

int ask_push_result(lua_State *L, const Job *job) {
  if (job->code == SQLITE_OK) {
    lua_pushinteger(L, (lua_Integer)job->changes);
    lua_pushinteger(L, (lua_Integer)job->rowid);
    return 2;
  }
  lua_pushnil(L);
  lua_pushstring(L, job->code == SQLITE_NOMEM ? "not enough memory"
                    : job->problem            ? job->problem
                                              : sqlite3_errstr(job->code));
  lua_pushinteger(L, job->code);
  return 3;
}

/* job:result() -> number of changed rows, id of the last inserted row; or nil, message, SQLite's code */
static int job_result(lua_State *L) {
  Job *job = (Job *)handle_check(L, 1, JOB_TYPE);
  return job->is_told ? ask_push_result(L, job) : luaL_error(L, "the statement has not ended");
}

void ask_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"__close", job_close}, {"add", many_add},   {"close", job_close}, {"result", job_result},
      {"row", rows_row},      {"rows", rows_page}, {NULL, NULL}};
  handle_open(L, &job_type, methods);
}
