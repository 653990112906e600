/* rows.c: the rows of a job. A row is a sequence of cells: the ValueKind, then an integer, a float, or a size and bytes.
   A page in the temporary file is its size and its rows. */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sqlite/database.h"

/* ---- the thread that works ---- */

/* seldom covered: only when memory runs out */
static int no_memory(Job *job) {
  job_fail(job, SQLITE_NOMEM, NULL);
  return SQLITE_NOMEM;
}

int rows_begin(Job *job, sqlite3_stmt *stmt) {
  job->ncolumns = sqlite3_column_count(stmt);
  for (int i = 0; i < job->ncolumns; i++) {
    const char *name = sqlite3_column_name(stmt, i);
    if (!name || !bytes_add(&job->columns, name, strlen(name) + 1)) return no_memory(job);
  }
  return SQLITE_OK;
}

static bool add_cell(Bytes *rows, sqlite3_stmt *stmt, int i) {
  int type = sqlite3_column_type(stmt, i);
  char kind = (char)(type == SQLITE_INTEGER ? VALUE_INTEGER
                     : type == SQLITE_FLOAT ? VALUE_FLOAT
                     : type == SQLITE_NULL  ? VALUE_NULL
                                            : VALUE_TEXT);
  if (!bytes_add(rows, &kind, 1)) return false;
  if (type == SQLITE_NULL) return true;
  if (type == SQLITE_INTEGER) {
    sqlite3_int64 integer = sqlite3_column_int64(stmt, i);
    return bytes_add(rows, &integer, sizeof integer);
  } else if (type == SQLITE_FLOAT) {
    double number = sqlite3_column_double(stmt, i);
    return bytes_add(rows, &number, sizeof number);
  }
  const void *bytes = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(stmt, i) : sqlite3_column_blob(stmt, i);
  size_t size = (size_t)sqlite3_column_bytes(stmt, i);
  if (!bytes && (size || type == SQLITE_TEXT)) return false; /* no memory */
  return bytes_add(rows, &size, sizeof size) && bytes_add(rows, bytes, size);
}

/* Sets the error of the temporary file, by errno. Returns the code. */
static int refuse(Job *job, int code) {
  char problem[300], why[100];
  if (errno == ENOMEM) return no_memory(job);
  if (strerror_r(errno, why, sizeof why) != 0) *why = '\0';
  (void)snprintf(problem, sizeof problem, "cannot write a temporary file in %.150s: %s", job->database->folder, why);
  job_fail(job, code, problem);
  return code;
}

/* Opens a file that has no name. (tmpfile(3) knows one folder only.) */
static FILE *open_file(const char *folder) {
  static const char name[] = "/runnel-XXXXXX";
  size_t size = strlen(folder) + sizeof name;
  char *path = (char *)malloc(size);
  if (!path) return NULL;
  (void)snprintf(path, size, "%s%s", folder, name);
  int fd = mkstemp(path);
  FILE *file = NULL;
  if (fd >= 0) {
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)unlink(path);
    file = fdopen(fd, "w+b");
    if (!file) (void)close(fd);
  }
  int error = errno;
  free(path);
  errno = error;
  return file;
}

/* Writes the page to the temporary file. The first page stays in memory until the second one is full. */
static int write_page(Job *job) {
  size_t size = bytes_length(&job->rows);
  if (!job->further) job->further = open_file(job->database->folder);
  if (!job->further) return refuse(job, SQLITE_CANTOPEN);
  bool ok = fwrite(&size, sizeof size, 1, job->further) == 1 && fwrite(job->rows.start, size, 1, job->further) == 1;
  bytes_clear(&job->rows);
  return ok ? SQLITE_OK : refuse(job, SQLITE_FULL);
}

int rows_add(Job *job, sqlite3_stmt *stmt) {
  for (int i = 0; i < job->ncolumns; i++) {
    if (!add_cell(&job->rows, stmt, i)) return no_memory(job);
  }
  return bytes_length(&job->rows) >= PAGE_SIZE ? write_page(job) : SQLITE_OK;
}

/* Reads the next page from the temporary file; false if there is none. */
static int read_page(Job *job) {
  size_t size;
  bytes_clear(&job->rows);
  if (fread(&size, sizeof size, 1, job->further) != 1) {
    int code = ferror(job->further) ? SQLITE_IOERR : SQLITE_DONE;
    (void)fclose(job->further);
    job->further = NULL;
    return code;
  }
  char *start = (char *)grow(job->rows.start, &job->rows.capacity, size, 1);
  if (!start) return SQLITE_NOMEM;
  job->rows.start = start;
  job->rows.to = size;
  return fread(start, size, 1, job->further) == 1 ? SQLITE_OK : SQLITE_IOERR;
}

int rows_end(Job *job) {
  if (!job->further) return SQLITE_OK;
  int code = bytes_length(&job->rows) ? write_page(job) : SQLITE_OK;
  if (code != SQLITE_OK) return code;
  if (fflush(job->further) != 0 || fseek(job->further, 0, SEEK_SET) != 0) return refuse(job, SQLITE_FULL);
  code = read_page(job);
  if (code != SQLITE_OK) job_fail(job, code, NULL);
  return code;
}

/* ---- the Lua thread ---- */

static Job *check(lua_State *L) {
  Job *job = (Job *)handle_check(L, 1, JOB_TYPE);
  if (!job->is_told) luaL_error(L, "the statement has not ended");
  return job;
}

/* Takes `size` bytes of the page. */
static const char *take(const char **at, void *to, size_t size) {
  const char *from = *at;
  if (to) memcpy(to, from, size);
  *at += size;
  return from;
}

/* Pushes the next cell, which is not NULL. */
static void push_cell(lua_State *L, char kind, const char **at) {
  size_t size;
  sqlite3_int64 integer;
  double number;
  if (kind == VALUE_INTEGER) {
    (void)take(at, &integer, sizeof integer);
    lua_pushinteger(L, (lua_Integer)integer);
  } else if (kind == VALUE_FLOAT) {
    (void)take(at, &number, sizeof number);
    lua_pushnumber(L, (lua_Number)number);
  } else {
    (void)take(at, &size, sizeof size);
    const char *bytes = take(at, NULL, size);
    lua_pushlstring(L, bytes, size);
  }
}

/* Pushes the next row as a table, and returns true; false if there is none. The row is taken only once it is pushed,
   since pushing may raise. */
static bool push_row(lua_State *L, Job *job) {
  if (job->ncolumns == 0) return false;
  if (bytes_length(&job->rows) == 0) {
    if (!job->further) return false;
    int code = read_page(job);
    if (code == SQLITE_DONE) return false;
    if (code != SQLITE_OK) luaL_error(L, "cannot read the temporary file with the rows: %s", sqlite3_errstr(code));
  }
  const char *at = bytes_first(&job->rows), *name = bytes_first(&job->columns);
  lua_createtable(L, 0, job->ncolumns);
  for (int i = 0; i < job->ncolumns; i++) {
    char kind;
    (void)take(&at, &kind, 1);
    if (kind != VALUE_NULL) {
      push_cell(L, kind, &at);
      lua_setfield(L, -2, name);
    }
    name += strlen(name) + 1;
  }
  job->rows.from += (size_t)(at - bytes_first(&job->rows));
  return true;
}

int rows_row(lua_State *L) {
  Job *job = check(L);
  return push_row(L, job) ? 1 : 0;
}

int rows_page(lua_State *L) {
  Job *job = check(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  bool has_more = push_row(L, job);
  while (has_more) {
    lua_rawseti(L, 2, ++n);
    has_more = bytes_length(&job->rows) > 0 && push_row(L, job);
  }
  lua_pushboolean(L, job->further != NULL);
  return 1;
}
