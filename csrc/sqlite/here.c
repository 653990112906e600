/* here.c: runs a statement of a Lua transaction in the Lua thread; see database.h. Waking the database's thread and
   waiting for it takes longer than many a statement.

   Nothing else of Lua runs meanwhile, so it must be short: its program has no loop (statement.c), its last run was
   quick, and no lock is waited for. And no value is copied. */
#include <math.h>
#include <stdlib.h>

#include "sqlite/database.h"

/* The first argument of database:here that is a value, and how many there may be. */
enum { FIRST_VALUE = 4, MAX_VALUES = 32 };

/* One of so many statements runs in the database's thread: the go block waits for it, and so lets others run. */
enum { WAITS_AFTER = 128 };

/* Whether a statement may run here now. */
static Statement *find(Database *db, lua_Integer tx, const char *sql, size_t size) {
  if (db->tx != tx || db->is_tx_over || !db->connection) return NULL;
  database_lock(db);
  bool is_next = !db->inner.first;
  database_unlock(db);
  Statement *kept = is_next ? statement_find(db, sql, size) : NULL;
  if (!kept || !kept->was_quick || ++db->here % WAITS_AFTER == 0) return NULL;
  return statement_has_few_steps(db, kept) ? kept : NULL;
}

/* Runs it. Returns whether it has run. */
static bool run(Database *db, Job *job) {
  Statement *kept = find(db, job->tx, job->sql, job->sql_size);
  if (!kept) return false;
  kept->used = ++db->uses;
  db->is_here = true;
  db->running = job;
  int code = run_one(db, job, kept->stmt, true, begin_nothing);
  db->running = NULL;
  db->is_here = false;
  db->is_tx_over = sqlite3_get_autocommit(db->connection);
  if ((code & 0xff) == SQLITE_BUSY) return false; /* the thread waits for the lock */
  job->rowid = sqlite3_last_insert_rowid(db->connection);
  return true;
}

/* Reads a value; false if it is none for this function. */
static bool read_value(lua_State *L, int at, Value *value) {
  int type = lua_type(L, at);
  bool is_plain = type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING;
  if (is_plain) ask_value(L, at, value, NULL);
  return is_plain && !isnan(value->number);
}

/* database:here(sql, tx, ...) -> nil: the statement must run in the thread; or true, number of changed rows, id of the
   last inserted row; or true, nil, message, code. `tx`: the number of the transaction. The other arguments are the
   values; if one is no string, number, boolean or nil, the statement must run in the thread, too. */
int here_run(lua_State *L) {
  Database *db = (Database *)handle_get(L, 1, DATABASE_TYPE);
  Value values[MAX_VALUES];
  Job job = {.kind = JOB_EXEC, .values = values, .database = db};
  int top = lua_gettop(L);
  if (!db || lua_type(L, 2) != LUA_TSTRING || top >= FIRST_VALUE + MAX_VALUES) return 0;
  job.sql = lua_tolstring(L, 2, &job.sql_size);
  job.tx = luaL_checkinteger(L, 3);
  for (int at = FIRST_VALUE; at <= top; at++) {
    values[job.nvalues] = (Value){.kind = VALUE_NULL};
    if (!read_value(L, at, &values[job.nvalues++])) return 0;
  }
  if (pthread_mutex_trylock(&db->use) != 0) return 0;
  bool has_run = run(db, &job);
  (void)pthread_mutex_unlock(&db->use);
  free(db->problem);
  db->problem = job.problem; /* the database owns it, since what follows may raise */
  if (!has_run) return 0;
  lua_pushboolean(L, 1);
  return 1 + ask_push_result(L, &job);
}
