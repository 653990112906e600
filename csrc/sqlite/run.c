/* run.c: runs the statements of a job; see database.h. The thread that works. */
#include <stdlib.h>
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
  char problem[150];
  bool is_short = job->is_many && job->nvalues < (size_t)parameters;
  (void)snprintf(problem, sizeof problem, "%zu value%s for %d parameter%s%s", job->nvalues,
                 job->nvalues == 1 ? "" : "s", parameters, parameters == 1 ? "" : "s",
                 is_short ? " (a row that ends with nil needs its length, in n)" : "");
  job_fail(job, SQLITE_MISUSE, problem);
  return SQLITE_MISUSE;
}

/* Whether a parameter has a name, without its first character. */
static bool has_name(sqlite3_stmt *stmt, int i, const char *name) {
  const char *other = sqlite3_bind_parameter_name(stmt, i);
  return other && strcmp(other + 1, name) == 0;
}

/* Sets the error that no parameter has the name of a value. Returns a code. */
static int refuse_name(Job *job, const char *name) {
  char problem[200];
  (void)snprintf(problem, sizeof problem, "no parameter uses the named value \"%.100s\"", name);
  job_fail(job, SQLITE_MISUSE, problem);
  return SQLITE_MISUSE;
}

/* The first parameter that is a ?, also with a number; 0: there is none. */
static int nameless(sqlite3_stmt *stmt, int n) {
  for (int i = 1; i <= n; i++) {
    const char *name = sqlite3_bind_parameter_name(stmt, i);
    if (!name || *name == '?') return i;
  }
  return 0;
}

/* Sets the error that a parameter has no name, although the values have, if there is one. Returns a code. */
static int refuse_nameless(Job *job, sqlite3_stmt *stmt, int n) {
  int i = nameless(stmt, n);
  if (!i) return SQLITE_OK;
  char problem[150];
  (void)snprintf(problem, sizeof problem, "parameter %d is a ?, but the values have names: write :name for it", i);
  job_fail(job, SQLITE_MISUSE, problem);
  return SQLITE_MISUSE;
}

/* Binds the values that have names. A parameter without a value is NULL; a value without a parameter is an error. */
static int bind_named(Job *job, sqlite3_stmt *stmt, int n) {
  int code = refuse_nameless(job, stmt, n);
  for (int i = 1; i <= n && code == SQLITE_OK; i++) {
    const Value *value = find(job, sqlite3_bind_parameter_name(stmt, i));
    if (value) code = bind(stmt, i, value);
  }
  for (size_t v = 0; v < job->nvalues && code == SQLITE_OK; v++) {
    int i = 1;
    while (i <= n && !has_name(stmt, i, job->values[v].name)) i++;
    if (i > n) code = refuse_name(job, job->values[v].name);
  }
  return code;
}

/* Binds the next values of the job to a statement; the last statement must use all that are left. */
static int bind_all(Job *job, sqlite3_stmt *stmt, bool is_last) {
  int n = sqlite3_bind_parameter_count(stmt);
  if (job->form == ROWS_NAMED) return bind_named(job, stmt, n);
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

/* Runs a statement to its end; the rows go to the job if it wants them. Returns SQLite's code. Its columns are known only
   after the first step: if the tables have changed since a kept statement was prepared, SQLite prepares it anew there. */
static int step_all(Database *db, Job *job, sqlite3_stmt *stmt, bool is_last) {
  bool wants_one = job->kind == JOB_ONE, collects = wants_one || job->kind == JOB_ROWS;
  collects = collects || (job->kind == JOB_LAST && is_last);
  int code = sqlite3_step(stmt), problem = SQLITE_OK;
  if (collects && (code == SQLITE_ROW || code == SQLITE_DONE)) problem = rows_begin(job, stmt);
  for (size_t n = 1; problem == SQLITE_OK && code == SQLITE_ROW; n++) {
    if (collects && (n == 1 || !wants_one)) problem = rows_add(job, stmt);
    if (wants_one && sqlite3_stmt_readonly(stmt)) break;
    if (problem == SQLITE_OK) code = sqlite3_step(stmt);
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) {
    connection_blame(db, job, code);
    return code;
  }
  if (collects && problem == SQLITE_OK) problem = rows_end(job);
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

int begin_nothing(Database *db) {
  (void)db;
  return SQLITE_OK;
}

/* `begin` is called before a statement that writes, or is NULL. */
int run_one(Database *db, Job *job, sqlite3_stmt *stmt, bool is_last, Begin begin) {
  if (!stmt) return SQLITE_OK;
  int before = sqlite3_total_changes(db->connection), code = bind_all(job, stmt, is_last);
  if (code == SQLITE_OK && begin && !sqlite3_stmt_readonly(stmt)) code = begin(db);
  if (code != SQLITE_OK && job->code == SQLITE_OK) connection_blame(db, job, code);
  int64_t start = clock_ns();
  if (code == SQLITE_OK) code = step_all(db, job, stmt, is_last);
  statement_note(db, stmt, clock_ns() - start);
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

/* Begins what is all done, or not at all. `begin` is NULL outside any transaction. Returns SQLite's code. */
static int enter(Database *db, Job *job, Begin begin) {
  int code = begin ? begin(db) : SQLITE_OK;
  if (begin && code == SQLITE_OK) code = connection_do(db, "savepoint script");
  if (code != SQLITE_OK) connection_blame(db, job, code);
  return code;
}

/* Ends it; undoes it if `code` is an error. Returns the code. */
static int leave(Database *db, Begin begin, int code) {
  if (!begin || sqlite3_get_autocommit(db->connection)) return code; /* SQLite may have rolled everything back */
  if (code != SQLITE_OK) (void)connection_do(db, "rollback to script");
  (void)connection_do(db, "release script");
  return code;
}

/* Runs a prepared statement that writes, and whose rows are wanted. SQLite has written all before the first row comes, for
   which there may be no memory, or no temporary file: then all is undone. */
static int run_returning(Database *db, Job *job, sqlite3_stmt *stmt, Begin begin) {
  int code = enter(db, job, begin);
  if (code == SQLITE_OK) return leave(db, begin, run_one(db, job, stmt, true, begin_nothing));
  statement_put(db, stmt);
  return code;
}

/* Runs several statements: all of them, or none. Pragmas and similar statements are not part of the transaction. */
static int run_script(Database *db, Job *job, Begin begin) {
  if (job->is_many) {
    job_fail(job, SQLITE_MISUSE, "rows need a single statement, got several");
    return SQLITE_MISUSE;
  }
  bool has_names = job->form == ROWS_NAMED && job->nvalues;
  if (job->form == ROWS_NAMED && !has_names) job->form = ROWS_LIST; /* no values: an error if there is a parameter */
  if (job->kind == JOB_ROWS || job->kind == JOB_ONE || has_names) {
    job_fail(job, SQLITE_MISUSE,
             has_names ? "named values need a single statement, got several" : "one statement expected, got several");
    return SQLITE_MISUSE;
  }
  int code = enter(db, job, begin);
  return code == SQLITE_OK ? leave(db, begin, run_each(db, job)) : code;
}

/* ---- many rows ---- */

/* Takes `size` packed bytes. */
static const char *take(const char **at, void *to, size_t size) {
  const char *from = *at;
  if (to) memcpy(to, from, size);
  *at += size;
  return from;
}

/* Takes a packed value. */
static Value take_value(const char **at) {
  char kind;
  uint64_t size;
  (void)take(at, &kind, 1);
  Value value = {.kind = (ValueKind)kind};
  if (value.kind == VALUE_INTEGER) {
    (void)take(at, &value.integer, sizeof value.integer);
  } else if (value.kind == VALUE_FLOAT) {
    (void)take(at, &value.number, sizeof value.number);
  } else if (value.kind != VALUE_NULL) {
    (void)take(at, &size, sizeof size);
    value.size = (size_t)size;
    value.bytes = take(at, NULL, value.size);
  }
  return value;
}

/* For each name of a job the first parameter that has it, at 0; then for each parameter the next one with the same
   name, or 0. NULL, with an error in the job, if no parameter has one of the names, or one has none. The caller frees it. */
static int *match_names(Job *job, sqlite3_stmt *stmt, int n) {
  if (job->form == ROWS_NAMED && refuse_nameless(job, stmt, n) != SQLITE_OK) return NULL;
  int *match = (int *)calloc((size_t)job->nnames + (size_t)n + 1, sizeof *match);
  const char *name = bytes_first(&job->names);
  if (!match) job_fail(job, SQLITE_NOMEM, NULL);
  for (int i = 0; job->form == ROWS_NAMED && match && i < job->nnames; i++, name += strlen(name) + 1) {
    int *place = &match[i];
    for (int parameter = 1; parameter <= n; parameter++) {
      if (!has_name(stmt, parameter, name)) continue;
      *place = parameter;
      place = &match[job->nnames + parameter];
    }
    if (match[i]) continue;
    (void)refuse_name(job, name);
    free(match);
    match = NULL;
  }
  return match;
}

/* Binds the next packed row, which has at most the length of a list of nils. Returns SQLite's code. */
static int bind_nils(Job *job, sqlite3_stmt *stmt, int n, const char **at) {
  int32_t width, number;
  (void)take(at, &width, sizeof width);
  job->nvalues = 0;
  if (width) {
    (void)take(at, &number, sizeof number);
    job->nvalues = (size_t)take_value(at).integer;
  }
  return job->nvalues == (size_t)n ? sqlite3_clear_bindings(stmt) : refuse(job, n);
}

/* Binds the next packed row. `match`: of match_names. Returns SQLite's code. */
static int bind_row(Job *job, sqlite3_stmt *stmt, int n, const int *match, const char **at) {
  int32_t width, number;
  int code = SQLITE_OK;
  (void)take(at, &width, sizeof width);
  job->nvalues = (size_t)width;
  if (job->form != ROWS_NAMED && width != n) return refuse(job, n);
  if (job->form == ROWS_NAMED) (void)sqlite3_clear_bindings(stmt);
  for (int i = 1; i <= width && code == SQLITE_OK; i++) {
    if (job->form == ROWS_NAMED) (void)take(at, &number, sizeof number);
    Value value = take_value(at);
    int parameter = job->form == ROWS_NAMED ? match[number - 1] : i;
    while (parameter && code == SQLITE_OK) {
      code = bind(stmt, parameter, &value);
      parameter = job->form == ROWS_NAMED ? match[job->nnames + parameter] : 0;
    }
  }
  return code;
}

/* Adds to the error of a job the row that has it. */
static void blame_row(Job *job, size_t row) {
  size_t size = job->problem ? strlen(job->problem) + 40 : 0;
  char *problem = size ? (char *)malloc(size) : NULL;
  if (!problem) return;
  (void)snprintf(problem, size, "row %lld: %s", (long long)job->before + (long long)row, job->problem);
  free(job->problem);
  job->problem = problem;
}

static int run_rows(Database *db, Job *job, sqlite3_stmt *stmt) {
  const char *at = bytes_first(&job->many);
  int n = sqlite3_bind_parameter_count(stmt), code = SQLITE_OK;
  if (job->form == ROWS_ANY) job->form = nameless(stmt, n) ? ROWS_LIST : ROWS_NAMED;
  int *match = match_names(job, stmt, n);
  if (!match) return job->code;
  for (size_t row = 1; row <= job->nrows && code == SQLITE_OK; row++) {
    int before = sqlite3_total_changes(db->connection);
    bool is_open = row <= job->nopen && job->form == ROWS_LIST;
    code = connection_stops(db) ? SQLITE_INTERRUPT
           : is_open            ? bind_nils(job, stmt, n, &at)
                                : bind_row(job, stmt, n, match, &at);
    if (code != SQLITE_OK && job->code == SQLITE_OK) job_fail(job, code, sqlite3_errstr(code));
    if (code == SQLITE_OK) code = step_all(db, job, stmt, true);
    if (code != SQLITE_OK) blame_row(job, row);
    (void)sqlite3_reset(stmt);
    if (sqlite3_total_changes(db->connection) != before) job->changes += sqlite3_changes(db->connection);
  }
  free(match);
  return code;
}

/* Runs a prepared statement, which may be NULL, for each of the job's rows: for all of them, or none. */
static int run_many(Database *db, Job *job, sqlite3_stmt *stmt, Begin begin) {
  if (!stmt || statement_word(job->sql) == WORD_ALONE) {
    job_fail(job, SQLITE_MISUSE, stmt ? "rows need a statement that a transaction may have" : "rows need a statement");
    if (stmt) statement_put(db, stmt);
    return SQLITE_MISUSE;
  }
  if (sqlite3_stmt_readonly(stmt)) begin = NULL;
  int code = enter(db, job, begin);
  if (code == SQLITE_OK) code = leave(db, begin, run_rows(db, job, stmt));
  statement_put(db, stmt);
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
    bool is_returning = begin && stmt && sqlite3_column_count(stmt) > 0 && !sqlite3_stmt_readonly(stmt);
    code = job->is_many   ? run_many(db, job, stmt, begin)
           : is_returning ? run_returning(db, job, stmt, begin)
                          : run_one(db, job, stmt, true, begin);
  }
  if (code != SQLITE_OK) return;
  db->locked_since = 0;
  job->rowid = sqlite3_last_insert_rowid(db->connection);
}
