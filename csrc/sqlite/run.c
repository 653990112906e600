/* run.c: runs the statements of a job; see database.h. The thread that works. */
#include <string.h>

#include "sqlite/database.h"

/* ---- values ---- */

static int bind(sqlite3_stmt *stmt, int i, const Value *value) {
  switch (value->kind) {
  case VALUE_INTEGER:
    return sqlite3_bind_int64(stmt, i, value->integer);
  case VALUE_FLOAT:
    return sqlite3_bind_double(stmt, i, value->number);
  case VALUE_TEXT:
    return sqlite3_bind_text64(stmt, i, value->bytes, value->size, SQLITE_STATIC, SQLITE_UTF8);
  case VALUE_BLOB:
    return sqlite3_bind_blob64(stmt, i, value->bytes, value->size, SQLITE_STATIC);
  default:
    return sqlite3_bind_null(stmt, i);
  }
}

/* The value for a parameter, or NULL. */
static const Value *find(const Job *job, const char *name) {
  for (size_t i = 0; name && i < job->nvalues; i++) {
    if (strcmp(job->values[i].name, name + 1) == 0) return &job->values[i];
  }
  return NULL;
}

/* Sets the error that the number of values is wrong. Returns a code. */
static int refuse(Job *job, int parameters) {
  char problem[100];
  (void)snprintf(problem, sizeof problem, "%zu value%s for %d parameter%s", job->nvalues, job->nvalues == 1 ? "" : "s",
                 parameters, parameters == 1 ? "" : "s");
  job_fail(job, SQLITE_MISUSE, problem);
  return SQLITE_MISUSE;
}

/* Binds the values that have names. A parameter without a value is NULL; a value without a parameter is an error. */
static int bind_named(Job *job, sqlite3_stmt *stmt, int n) {
  size_t used = 0;
  for (int i = 1; i <= n; i++) {
    const Value *value = find(job, sqlite3_bind_parameter_name(stmt, i));
    int code = value ? bind(stmt, i, value) : SQLITE_OK;
    if (code != SQLITE_OK) return code;
    used += value != NULL;
  }
  if (used == job->nvalues) return SQLITE_OK;
  job_fail(job, SQLITE_MISUSE, "a named value that no parameter uses");
  return SQLITE_MISUSE;
}

/* Binds the next values of the job to a statement; the last statement must use all that are left. */
static int bind_all(Job *job, sqlite3_stmt *stmt, bool is_last) {
  int n = sqlite3_bind_parameter_count(stmt);
  if (job->nvalues && job->values[0].name) return bind_named(job, stmt, n);
  size_t left = job->nvalues - job->used;
  job->parameters += n;
  if ((size_t)n > left || (is_last && (size_t)n < left)) return refuse(job, job->parameters);
  for (int i = 1; i <= n; i++) {
    int code = bind(stmt, i, &job->values[job->used++]);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

/* ---- statements ---- */

/* Runs a statement to its end; the rows go to the job if it wants them. Returns SQLite's code. */
static int step_all(Database *db, Job *job, sqlite3_stmt *stmt, bool is_last) {
  bool collects = job->kind == JOB_ROWS || (job->kind == JOB_LAST && is_last);
  int problem = collects ? rows_begin(job, stmt) : SQLITE_OK, code = SQLITE_DONE;
  while (problem == SQLITE_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
    if (collects) problem = rows_add(job, stmt);
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    connection_blame(db, job, code);
    return code;
  }
  if (collects && problem == SQLITE_OK) problem = rows_end(job);
  if (problem != SQLITE_OK) job_fail(job, problem, problem == SQLITE_NOMEM ? NULL : "cannot write a temporary file");
  return problem;
}

/* Prepares the first statement of a text; *tail is the rest. Returns SQLite's code. */
static int prepare(Database *db, Job *job, const char *sql, sqlite3_stmt **stmt, const char **tail) {
  if (statement_word(sql) == WORD_TRANSACTION) {
    job_fail(job, SQLITE_MISUSE, "begin and end a transaction with db:transaction(function(tx) ... end)");
    return SQLITE_MISUSE;
  }
  int code = statement_get(db, sql, job->sql_size - (size_t)(sql - job->sql), stmt, tail);
  if (code != SQLITE_OK) connection_blame(db, job, code);
  return code;
}

/* Runs a prepared statement, which may be NULL. `begin` is called before one that writes, or is NULL. */
static int run_one(Database *db, Job *job, sqlite3_stmt *stmt, bool is_last, Begin begin) {
  if (!stmt) return SQLITE_OK;
  int before = sqlite3_total_changes(db->connection), code = bind_all(job, stmt, is_last);
  if (code == SQLITE_OK && begin && !sqlite3_stmt_readonly(stmt)) code = begin(db);
  if (code != SQLITE_OK && job->code == SQLITE_OK) connection_blame(db, job, code);
  if (code == SQLITE_OK) code = step_all(db, job, stmt, is_last);
  statement_put(db, stmt);
  if (sqlite3_total_changes(db->connection) != before) job->changes += sqlite3_changes(db->connection);
  return code;
}

static int run_each(Database *db, Job *job) {
  const char *sql = job->sql;
  int code = SQLITE_OK;
  while (code == SQLITE_OK && *sql) {
    sqlite3_stmt *stmt;
    code = prepare(db, job, sql, &stmt, &sql);
    if (code == SQLITE_OK) code = run_one(db, job, stmt, !*sql, NULL);
  }
  return code;
}

/* Runs several statements: all of them, or none. Pragmas and similar statements are not part of the transaction. */
static int run_script(Database *db, Job *job, Begin begin) {
  bool has_names = job->nvalues && job->values[0].name;
  if (job->kind == JOB_ROWS || has_names) {
    job_fail(job, SQLITE_MISUSE,
             has_names ? "named values need a single statement, got several" : "one statement expected, got several");
    return SQLITE_MISUSE;
  }
  int code = begin ? begin(db) : SQLITE_OK;
  if (begin && code == SQLITE_OK) code = connection_do(db, "savepoint script");
  if (code != SQLITE_OK) {
    connection_blame(db, job, code);
    return code;
  }
  code = run_each(db, job);
  if (!begin || sqlite3_get_autocommit(db->connection)) return code; /* SQLite may have rolled everything back */
  if (code != SQLITE_OK) (void)connection_do(db, "rollback to script");
  (void)connection_do(db, "release script");
  return code;
}

void run_statements(Database *db, Job *job, Begin begin) {
  sqlite3_stmt *stmt;
  const char *tail;
  job->used = 0;
  job->parameters = 0;
  int code = prepare(db, job, job->sql, &stmt, &tail);
  if (code == SQLITE_OK && *tail) {
    statement_put(db, stmt);
    code = run_script(db, job, begin);
  } else if (code == SQLITE_OK) {
    code = run_one(db, job, stmt, true, begin);
  }
  if (code != SQLITE_OK) return;
  db->locked_since = 0;
  job->rowid = sqlite3_last_insert_rowid(db->connection);
}
