/* database.h: the C half of lua/runnel/sqlite.lua: statements on a database of SQLite, which a thread runs.

   Each database has a thread and a connection of its own. So a slow disk blocks no go block, and drivers are not
   involved. The life of a statement: 1. Lua thread: database:ask(...) makes a Job with copies of the statement and its
   values, puts it on Database.asked, and wakes the thread. 2. The thread runs the job (batch.c, run.c). Statements that
   write are collected in one transaction of SQLite, the batch, as long as others wait: they are committed together,
   with one write to the disk. Then the thread moves them to Database.done. 3. Lua thread: news.c puts true on the
   channel of each job that is done. The go block that waits on it then reads the job: result(), row().

   A transaction of Lua begins with a job and ends with one. Between them the thread runs only the jobs of that
   transaction. Lua is told at once when each of them is done; all other jobs wait.

   Many a statement of such a transaction takes less time than waking the thread and waiting for it. If one has few
   steps, and was quick the last time, the Lua thread runs it at once, under Database.use (here.c).

   A simulation has no threads: there a go block does the work later, by database:work, in the Lua thread, under
   Database.use (lua/runnel/sqlite/sim_thread.lua). On a host of a simulated world the file is on the host's disk
   (disk.c).

   The queue of events is open while jobs are under way, so that a wait for one is no deadlock. */
#ifndef RUNNEL_SQLITE_DATABASE_H
#define RUNNEL_SQLITE_DATABASE_H

#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/thread.h"
#include "kit/events.h"

#define DATABASE_TYPE "runnel.sqlite.database"
#define JOB_TYPE "runnel.sqlite.job"

/* The size of a page of rows, in bytes. All pages of a result but the first are written to a temporary file. So a long
   result needs little memory, and a slow reader keeps no statement open and holds no lock. */
enum { PAGE_SIZE = 256 * 1024 };

/* A batch is committed when no statement waits, or after this time, in ms. */
enum { BATCH_MS = 10 };

/* How many prepared statements are kept. */
enum { KEPT_STATEMENTS = 64 };

/* A statement may run in the Lua thread (here.c) if its last run took less than this, in us. */
enum { QUICK_US = 50 };

typedef enum JobKind {
  JOB_OPEN,     /* opens the connection, and runs the statements, which are pragmas */
  JOB_EXEC,     /* runs statements, and drops their rows */
  JOB_ROWS,     /* runs one statement, and collects its rows */
  JOB_ONE,      /* the same with its first row; a statement that only reads ends then */
  JOB_LAST,     /* runs statements, and collects the rows of the last one */
  JOB_BEGIN,    /* begins a transaction of Lua */
  JOB_COMMIT,   /* commits it */
  JOB_ROLLBACK, /* rolls it back, unless it has ended; a JOB_BEGIN that is closed becomes this */
  JOB_CLOSE,    /* closes the connection */
  JOB_LIMIT     /* the time limit of a call, whose statement runs if the process is ended */
} JobKind;

typedef enum ValueKind { VALUE_NULL, VALUE_INTEGER, VALUE_FLOAT, VALUE_TEXT, VALUE_BLOB } ValueKind;

/* A value for a parameter of a statement. */
typedef struct Value {
  ValueKind kind;
  sqlite3_int64 integer; /* one of these three, by kind */
  double number;
  const char *bytes; /* of a text or a blob; in Job.memory */
  size_t size;       /* of the bytes */
  const char *name;  /* of the parameter, without its first character, in Job.memory; NULL if they have no names */
} Value;

/* What the rows of a job, or its values, are; ROWS_ANY: not known yet. */
typedef enum RowForm { ROWS_ANY, ROWS_LIST, ROWS_NAMED } RowForm;

/* Whether a statement may take any number of steps, depending on what is in the database. */
typedef enum Steps { STEPS_UNKNOWN, STEPS_FEW, STEPS_MANY } Steps;

/* A prepared statement that is kept. */
typedef struct Statement {
  sqlite3_stmt *stmt; /* NULL: the place is free */
  char *sql;          /* its text, owned */
  size_t size;        /* of the text */
  uint64_t used;      /* Database.uses when it was last used */
  Steps steps;        /* how many it takes */
  int prepared;       /* SQLite's count of preparing it anew, when `steps` was found */
  bool was_quick;     /* its last run took less than QUICK_US */
} Statement;

typedef struct Disk Disk;

typedef struct Database {
  Handle handle;              /* also held by each job */
  const runnel_functions *rn; /* the core's functions */
  Events events;              /* the event 1 of the database itself: there are jobs in `done` */
  Thread thread;              /* does the work */
  runnel_task wake;           /* wakes the thread */
  size_t under_way;           /* how many jobs have a channel in the database's user value; Lua thread */
  bool is_closed;             /* no job runs any more; Lua thread */
  char *problem;              /* of the last statement that ran in the Lua thread, owned; or NULL; Lua thread */

  char *path;      /* of the file, owned; this and the next four fields never change */
  char *folder;    /* for temporary files, owned */
  int flags;       /* for sqlite3_open_v2 */
  int64_t busy_ms; /* how long a statement waits for another connection's lock */
  Disk *disk;      /* simulated, owned; NULL: the file is the system's */

  pthread_mutex_t lock; /* guards the lists of jobs, which hold them */
  List asked;           /* jobs to run, in order */
  List inner;           /* jobs to run that belong to a Lua transaction */
  List done;            /* jobs that are done, about which Lua was not told yet */
  List limits;          /* of JOB_LIMIT; limits.c */
  int64_t looks_at;     /* when the thread looks at the limits again, in ms; INT64_MAX: there are none */

  _Atomic int64_t alive_at; /* when Lua last said that it runs, in ms */

  pthread_mutex_t use; /* held by the thread that does the work; guards the rest */
  sqlite3 *connection; /* NULL before it is opened, and after it is closed */
  Statement statements[KEPT_STATEMENTS];
  uint64_t uses;        /* counts the uses of statements */
  struct Job *running;  /* for the functions that SQLite calls; or NULL */
  List executed;        /* jobs that have run in the batch, held */
  List again;           /* jobs that must run again, before all others, held */
  bool in_batch;        /* the batch has begun a transaction in SQLite */
  int64_t batch_since;  /* when that began, in ms */
  int64_t locked_since; /* when `busy` first found a lock of another connection, in ms; 0: there is none */
  lua_Integer tx;       /* the number of the current Lua transaction; 0: none. Changed under `lock` */
  bool is_here;         /* the Lua thread does the work, and must not wait */
  unsigned here;        /* how many statements it has run outside simulations */
  bool is_tx_over;      /* SQLite has rolled it back */
} Database;

/* User values of a database: the channels of jobs, by Job.ref; the channel of the port, which stays empty; the
   functions that offer to a channel and close it. */
enum { DATABASE_CHANNELS = 1, DATABASE_EVENTS, DATABASE_OFFER, DATABASE_CLOSE, DATABASE_VALUES = DATABASE_CLOSE };

typedef struct Job {
  Handle handle;      /* also held by the list that it is in, or by the thread */
  Link link;          /* in a list of the database */
  Database *database; /* with a hold */
  JobKind kind;
  lua_Integer tx;           /* the number of its Lua transaction; 0: none */
  int64_t asked;            /* when the job was made, in ms */
  void *memory;             /* the memory of the next three fields, owned */
  const char *sql;          /* its statements, ended by a zero byte; or NULL */
  size_t sql_size;          /* of these */
  Value *values;            /* for the parameters */
  size_t nvalues;           /* their number */
  size_t used;              /* how many values have been bound; used by the thread, like the next field */
  int parameters;           /* how many parameters the statements so far have */
  int64_t ms;               /* of a JOB_LIMIT: how long the call may take */
  const char *text;         /* of a JOB_LIMIT: what is said when the process ends; in `memory` */
  RowForm form;             /* of its rows, or of its values */
  bool is_many;             /* its statement runs once for each of its rows, in place of once for `values` */
  Bytes many;               /* its rows, packed: many.c. Freed with the job, so that it can run again */
  size_t nrows;             /* their number */
  size_t nopen;             /* how many of the first ones may be of either form: they are packed as named ones */
  lua_Integer before;       /* how many rows the earlier jobs of the same call had; for messages */
  Bytes names;              /* of the values in the rows, each ended by a zero byte */
  int32_t nnames;           /* their number */
  bool is_limited;          /* it is in Database.limits, with a hold; guarded by Database.lock */
  atomic_bool is_cancelled; /* it was closed: its results are not needed */
  int ref;                  /* the reference to its channel, or LUA_NOREF; Lua thread */

  /* Used by the thread until it is in `done`, then by the Lua thread. */
  bool is_alone;         /* it must run in a batch of its own */
  bool is_told;          /* Lua may read the fields below; Lua thread */
  bool is_here;          /* it belongs to a simulation: database:work runs it; never changes */
  int code;              /* SQLite's; SQLITE_OK on success */
  char *problem;         /* the error message, owned; NULL: SQLite's message for `code` */
  sqlite3_int64 changes; /* rows that were changed */
  sqlite3_int64 rowid;   /* of the row that the connection has inserted last */
  Bytes columns;         /* the names, each ended by a zero byte */
  int ncolumns;          /* their number */
  Bytes rows;            /* the current page: rows that Lua has not read (rows.c) */
  FILE *further;         /* the file with the following pages, owned; or NULL */
} Job;

static inline void database_lock(Database *db) { (void)pthread_mutex_lock(&db->lock); }
static inline void database_unlock(Database *db) { (void)pthread_mutex_unlock(&db->lock); }

/* ---- job.c: any thread ---- */

/* Removes the results of a job, so that it can run again. */
void job_reset(Job *job);

/* Sets a job's error; `problem` is copied, or NULL. */
void job_fail(Job *job, int code, const char *problem);

/* HandleType.free */
void job_free(void *object);

/* Removes the first job from a list and returns it, with the list's hold; NULL if there is none. */
Job *job_take(List *list);

/* ---- batch.c: the thread that works ---- */

/* Runs jobs until none is left that can run. */
void batch_work(Database *db);

/* The same in the Lua thread; without `all`, one job. */
void batch_work_here(Database *db, bool all);

/* How many jobs can run now, or as soon as the running one is done. The Lua thread. */
size_t batch_waiting(Database *db);

/* thread_start's function. */
void *batch_run(void *data);

/* Rolls back the current transaction, and closes the connection. */
void batch_close(Database *db);

/* ---- limits.c ---- */

/* Adds a JOB_LIMIT, with a hold. The Lua thread. */
void limits_add(Database *db, Job *limit);

/* Removes a limit, unless it was removed. The Lua thread. */
void limits_remove(Database *db, Job *limit);

/* Removes all limits. The Lua thread, after the other thread has ended. */
void limits_drop(Database *db);

/* Returns the limit within which Lua has not run, held; NULL if there is none. *has_failed: its call has failed. *ms:
   after how long to call it again, or -1. The thread that works. */
Job *limits_late(Database *db, bool *has_failed, int *ms);

/* database:alive(): Lua runs. */
int limits_alive(lua_State *L);

/* ---- connection.c: the same as batch.c ---- */

/* Opens the connection, for a JOB_OPEN; an error is set in the job. */
void connection_open(Database *db, Job *job);

/* Closes the connection; does nothing if there is none. */
void connection_close(Database *db);

/* Runs a statement without values or rows; returns SQLite's code. */
int connection_do(Database *db, const char *sql);

/* Whether the running statement must stop: it was cancelled, or the database is being closed. */
bool connection_stops(const Database *db);

/* Sets the job's error to the connection's. */
void connection_blame(Database *db, Job *job, int code);

/* ---- matches.c: the same ---- */

/* Adds the function runnel_matches to a connection; returns SQLite's code. */
int matches_add(sqlite3 *connection);

/* ---- statement.c: the same ---- */

/* What the first word of a statement asks for. */
typedef enum Word {
  WORD_OTHER,
  WORD_ALONE,      /* it runs outside any transaction, such as a pragma */
  WORD_TRANSACTION /* it begins or ends a transaction */
} Word;

Word statement_word(const char *sql);

/* Prepares the first statement of a text, or takes one that is kept; *stmt is NULL if there is none. *tail is the next
   statement in the text, or its end. Returns SQLite's code. */
int statement_get(Database *db, const char *sql, size_t size, sqlite3_stmt **stmt, const char **tail);

/* Gives back a statement, which may be kept. */
void statement_put(Database *db, sqlite3_stmt *stmt);

/* The kept statement that is a whole text; NULL if there is none. */
Statement *statement_find(Database *db, const char *sql, size_t size);

/* Notes how long a run of a statement took, in ns. */
void statement_note(Database *db, sqlite3_stmt *stmt, int64_t ns);

/* Whether the number of steps of a statement does not depend on what is in the tables. */
bool statement_has_few_steps(Database *db, Statement *kept);

/* Frees the kept statements. */
void statement_free_all(Database *db);

/* ---- run.c: the same ---- */

/* Called before each statement that writes: begins the batch, unless it has begun. Returns SQLite's code. */
typedef int (*Begin)(Database *db);

/* Begin, within a Lua transaction. */
int begin_nothing(Database *db);

/* Runs a single prepared statement, which may be NULL; returns SQLite's code. */
int run_one(Database *db, Job *job, sqlite3_stmt *stmt, bool is_last, Begin begin);

/* Runs a job's statements, and sets its results. `begin` is NULL for statements outside any transaction. */
void run_statements(Database *db, Job *job, Begin begin);

/* ---- rows.c ---- */

/* Adds the statement's row to a job; returns SQLite's code, which is also in the job if it is an error. The thread that
   works. */
int rows_add(Job *job, sqlite3_stmt *stmt);

/* Call it after the first step of a statement, and before its first row is added: stores the names of its columns.
   Returns as rows_add. The thread that works. */
int rows_begin(Job *job, sqlite3_stmt *stmt);

/* Call it after the last row: prepares the pages for reading. Returns as rows_add. The thread that works. */
int rows_end(Job *job);

/* job:row() -> the next row as a table, or nil; job:rows(list) -> adds the next page of rows to a list, and returns
   whether there may be more. */
int rows_row(lua_State *L);
int rows_page(lua_State *L);

/* ---- news.c: the Lua thread ---- */

/* Events.deliver */
int news_deliver(lua_State *L);

/* Removes the channel of a job, for which no go block waits any more. Does not raise. */
void news_leave(lua_State *L, Job *job);

/* ---- ask.c: the Lua thread ---- */

/* database:ask(...) -> job: see ask.c. */
int ask_job(lua_State *L);

/* plain(...) -> boolean: see ask.c. */
int ask_plain(lua_State *L);

/* Reads the value at an index; a table has the bytes of a blob at 1. Copies bytes to *memory, and moves that behind
   them; with NULL it leaves them where they are. */
void ask_value(lua_State *L, int at, Value *value, char **memory);

/* Pushes the results of a job that is done, as job:result(); returns their number. */
int ask_push_result(lua_State *L, const Job *job);

/* database:many(...) -> job; see ask.c. */
int ask_many(lua_State *L);

/* database:start(job, channel): runs a job of database:many, or once more a job that is done and has failed. */
int ask_start(lua_State *L);

/* database:work(all): what the thread does, for a simulation, and tells of jobs that are done. Without `all` one job
   runs, and is committed alone. database:waiting() -> how many can run. */
int ask_work(lua_State *L);
int ask_waiting(lua_State *L);

/* database:limit(...) -> job: see ask.c. */
int ask_limit(lua_State *L);

/* ---- here.c: the Lua thread ---- */

/* database:here(sql, tx, ...) -> nil: it must run in the database's thread; true, and as job:result; see here.c. */
int here_run(lua_State *L);

/* ---- many.c: the Lua thread ---- */

/* job:add(blob, list, from, to) -> the first index that was not added, the bytes of all rows: adds rows of a list, at
   least one, to a job of database:many that has not begun. `blob` is the metatable of blobs. If a row is wrong: nil, its
   index, and the key with the wrong value, or nil. */
int many_add(lua_State *L);

/* Makes the metatable of jobs. */
void ask_open(lua_State *L);

/* ---- disk.c: the Lua thread ---- */

/* Gives a database a disk, which is the function at an index; raises if there is no memory. */
void disk_open(lua_State *L, Database *db, int at);

/* The name of a disk for sqlite3_open_v2; NULL if `disk` is NULL. Any thread. */
const char *disk_name(const Disk *disk);

/* Call it before SQLite, with the running state, and after it with the result. `disk` may be NULL here and below. */
lua_State *disk_enter(Disk *disk, lua_State *L);

/* The function is not called any more. */
void disk_close(lua_State *L, Disk *disk);

/* Frees a disk that no connection uses. Any thread. */
void disk_free(Disk *disk);

/* memory() -> what the connections to one file share: the result of the operation "memory" */
int disk_memory(lua_State *L);

/* Makes its metatable. */
void disk_init(lua_State *L);

/* ---- locks.c ---- */

/* locks(path) -> the locks in a file, which is made if it does not exist; or nil, message */
int locks_new(lua_State *L);

/* Makes the metatable of locks. */
void locks_open(lua_State *L);

/* ---- module.c ---- */

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_sqlite_core(lua_State *L);

#endif
