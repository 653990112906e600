/* connection.c: the connection to SQLite; see database.h. The thread that works. */
#include <errno.h>
#include <time.h>

#include "sqlite/database.h"

bool connection_stops(const Database *db) {
  return (db->running && atomic_load(&db->running->is_cancelled)) || thread_ends(&db->thread);
}

/* After this many instructions of its virtual machine, about 50 us, SQLite calls `progress`. */
enum { PROGRESS_STEPS = 2000 };
static int progress(void *data) { return connection_stops((const Database *)data); }

/* SQLite calls this while another connection has a lock, for the n-th time. Returns whether to try again. The wait for
   one lock counts for all jobs that were asked for before it began, so that they do not wait one after the other. In a
   simulation nothing else would run meanwhile, so Lua asks for the statement again. */
static int busy(void *data, int n) {
  Database *db = (Database *)data;
  if (db->is_here) return 0;
  int64_t now = clock_ms(), since;
  if (!db->locked_since) db->locked_since = now;
  since = db->running && db->running->asked > db->locked_since ? db->running->asked : db->locked_since;
  if (now - since >= db->busy_ms || connection_stops(db)) return 0;
  struct timespec pause = {.tv_nsec = (n < 10 ? 1 : 10) * 1000000L};
  (void)nanosleep(&pause, NULL);
  return 1;
}

void connection_blame(Database *db, Job *job, int code) {
  const char *problem = code == SQLITE_NOMEM || !db->connection ? NULL : sqlite3_errmsg(db->connection);
  int error = problem && (code & 0xff) == SQLITE_CANTOPEN ? sqlite3_system_errno(db->connection) : 0;
  char text[200];
  if (error == EMFILE || error == ENFILE) {
    (void)snprintf(text, sizeof text, "%.100s: there are too many open files (ulimit -n)", problem);
    problem = text;
  }
  job_fail(job, code, problem);
}

int connection_do(Database *db, const char *sql) {
  sqlite3_stmt *stmt;
  const char *tail;
  int code = statement_get(db, sql, strlen(sql), &stmt, &tail);
  if (code != SQLITE_OK) return code;
  code = sqlite3_step(stmt);
  while (code == SQLITE_ROW) code = sqlite3_step(stmt);
  statement_put(db, stmt);
  if (code != SQLITE_DONE) return code;
  db->locked_since = 0;
  return SQLITE_OK;
}

/* Runs the pragmas of a new connection. Repeats them while a lock prevents one, since SQLite does not call `busy` for
   all of them. */
static int set_up(Database *db, const char *pragmas) {
  int code = sqlite3_exec(db->connection, pragmas, NULL, NULL, NULL);
  for (int n = 0; (code & 0xff) == SQLITE_BUSY && busy(db, n); n++) {
    code = sqlite3_exec(db->connection, pragmas, NULL, NULL, NULL); /* seldom covered: a lock is rare here */
  }
  return code;
}

void connection_open(Database *db, Job *job) {
  int code = sqlite3_open_v2(db->path, &db->connection, db->flags, disk_name(db->disk));
  if (code == SQLITE_OK) {
    (void)sqlite3_extended_result_codes(db->connection, 1);
    sqlite3_progress_handler(db->connection, PROGRESS_STEPS, progress, db);
    (void)sqlite3_busy_handler(db->connection, busy, db);
    code = matches_add(db->connection);
    if (code == SQLITE_OK) code = set_up(db, job->sql);
  }
  db->locked_since = 0;
  if (code == SQLITE_OK) return;
  connection_blame(db, job, code);
  connection_close(db);
}

void connection_close(Database *db) {
  statement_free_all(db);
  (void)sqlite3_close_v2(db->connection);
  db->connection = NULL;
}
