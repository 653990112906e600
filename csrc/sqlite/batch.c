/* batch.c: which job runs next, in which transaction, and when that is committed; see database.h. The thread that
   works. */
#include <poll.h>

#include "kit/limit.h"
#include "sqlite/database.h"

static void tell(Database *db, Job *job) {
  database_lock(db);
  list_append(&db->done, &job->link);
  database_unlock(db);
  events_add(&db->events, db, 1);
}

/* ---- the batch ---- */

/* Begin */
static int begin_batch(Database *db) {
  if (db->in_batch) return SQLITE_OK;
  int code = connection_do(db, "begin immediate");
  if (code != SQLITE_OK) return code;
  db->in_batch = true;
  db->batch_since = clock_ms();
  return SQLITE_OK;
}

/* Call it when SQLite has rolled the batch back, or could not commit it. Most of its jobs may have succeeded, so each
   runs again, in a transaction of its own. */
static void undo(Database *db) {
  Job *job;
  if (!sqlite3_get_autocommit(db->connection)) (void)connection_do(db, "rollback");
  db->in_batch = false;
  while ((job = job_take(&db->executed)) != NULL) {
    job_reset(job);
    job->is_alone = true;
    list_append(&db->again, &job->link);
  }
}

static void commit(Database *db) {
  Job *job;
  if (!db->in_batch) return;
  int code = connection_do(db, "commit");
  db->in_batch = false;
  Job *first = db->executed.first ? CONTAINER_OF(db->executed.first, Job, link) : NULL;
  if (code != SQLITE_OK && first) {
    if (list_next(&db->executed, &first->link)) {
      undo(db);
      return;
    }
    job_reset(first);
    connection_blame(db, first, code);
  }
  if (code != SQLITE_OK && !sqlite3_get_autocommit(db->connection)) (void)connection_do(db, "rollback");
  while ((job = job_take(&db->executed)) != NULL) tell(db, job);
}

/* Commits the batch before a job that must run outside it. False: the commit has failed, so that the batch's jobs run
   again, one by one, and this job after them. */
static bool settle(Database *db, Job *job) {
  commit(db);
  if (!db->again.first) return true;
  list_append(&db->again, &job->link);
  return false;
}

/* ---- jobs ---- */

/* Why a statement of a Lua transaction cannot run; or NULL. */
static const char *refusal(const Database *db, const Job *job) {
  if (job->tx != db->tx) return "the transaction has ended";
  return db->is_tx_over ? "the transaction was rolled back, because of an earlier error" : NULL;
}

static void run_inner(Database *db, Job *job) {
  const char *problem = refusal(db, job);
  if (problem) {
    job_fail(job, SQLITE_ABORT, problem);
  } else {
    run_statements(db, job, begin_nothing);
    db->is_tx_over = sqlite3_get_autocommit(db->connection);
  }
  tell(db, job);
}

static void run_outer(Database *db, Job *job) {
  bool is_outside = statement_word(job->sql) == WORD_ALONE;
  if (is_outside && !settle(db, job)) return;
  run_statements(db, job, is_outside ? NULL : begin_batch);
  if (db->in_batch && sqlite3_get_autocommit(db->connection)) undo(db); /* the earlier jobs of the batch */
  if (!db->in_batch) {
    tell(db, job);
  } else {
    list_append(&db->executed, &job->link);
    bool is_long = !db->is_here && clock_ms() - db->batch_since >= BATCH_MS; /* real time decides nothing there */
    if (job->is_alone || is_long) commit(db);
  }
}

static void run_begin(Database *db, Job *job) {
  if (!settle(db, job)) return;
  int code = connection_do(db, "begin immediate");
  if (code != SQLITE_OK) connection_blame(db, job, code);
  db->is_tx_over = false;
  database_lock(db);
  bool is_wanted = !atomic_load(&job->is_cancelled);
  if (is_wanted && code == SQLITE_OK) db->tx = job->tx;
  if (is_wanted) list_append(&db->done, &job->link); /* at once: `end_transaction` in ask.c moves it to another list */
  database_unlock(db);
  if (is_wanted) {
    events_add(&db->events, db, 1);
  } else {
    /* seldom covered: the job was cancelled in the moment in which it began */
    if (code == SQLITE_OK) (void)connection_do(db, "rollback");
    tell(db, job);
  }
}

static void run_end(Database *db, Job *job) {
  const char *problem = refusal(db, job);
  if (job->tx == db->tx) {
    int code = problem ? SQLITE_OK : connection_do(db, job->kind == JOB_COMMIT ? "commit" : "rollback");
    if (code != SQLITE_OK) connection_blame(db, job, code);
    if (!sqlite3_get_autocommit(db->connection)) (void)connection_do(db, "rollback");
    database_lock(db);
    db->tx = 0;
    database_unlock(db);
  }
  if (problem && job->kind == JOB_COMMIT) job_fail(job, SQLITE_ABORT, problem);
  tell(db, job);
}

static void run(Database *db, Job *job) {
  db->running = job;
  if (job->kind == JOB_OPEN) {
    connection_open(db, job);
    tell(db, job);
  } else if (!db->connection) {
    job_fail(job, SQLITE_MISUSE, "the database is closed"); /* uncovered: Lua asks only while it is open */
    tell(db, job);
  } else if (job->kind == JOB_BEGIN) {
    run_begin(db, job);
  } else if (job->kind == JOB_COMMIT || job->kind == JOB_ROLLBACK) {
    run_end(db, job);
  } else if (job->kind == JOB_CLOSE) {
    if (settle(db, job)) {
      connection_close(db);
      tell(db, job);
    }
  } else if (job->tx) {
    run_inner(db, job);
  } else {
    run_outer(db, job);
  }
  db->running = NULL;
}

/* The job to run next, with a hold; or NULL. */
static Job *next(Database *db) {
  Job *job = job_take(&db->again);
  if (job || thread_ends(&db->thread)) return job;
  database_lock(db);
  job = job_take(&db->inner);
  if (!job && !db->tx) job = job_take(&db->asked);
  database_unlock(db);
  return job;
}

/* Whether a job that has not run was cancelled, so that it need not run. */
static bool is_dropped(const Job *job) {
  return atomic_load(&job->is_cancelled) && job->kind != JOB_COMMIT && job->kind != JOB_ROLLBACK;
}

/* Runs jobs until none is left that can run, or `most` have run. */
static void work(Database *db, size_t most) {
  Job *job;
  do {
    while (most > 0 && (job = next(db)) != NULL) {
      if (is_dropped(job)) {
        handle_release(job);
      } else {
        run(db, job);
        most--;
      }
    }
    commit(db);
  } while (most > 0 && db->again.first);
}

void batch_work(Database *db) {
  (void)pthread_mutex_lock(&db->use);
  work(db, SIZE_MAX);
  (void)pthread_mutex_unlock(&db->use);
}

void batch_work_here(Database *db, bool all) {
  (void)pthread_mutex_lock(&db->use);
  db->is_here = true;
  work(db, all ? SIZE_MAX : 1);
  db->is_here = false;
  (void)pthread_mutex_unlock(&db->use);
}

static size_t count_wanted(const List *list) {
  size_t n = 0;
  for (Link *link = list->first; link; link = list_next(list, link)) {
    if (!is_dropped(CONTAINER_OF(link, Job, link))) n++;
  }
  return n;
}

size_t batch_waiting(Database *db) {
  database_lock(db);
  size_t n = count_wanted(&db->inner);
  if (!n && !db->tx) n = count_wanted(&db->asked);
  database_unlock(db);
  return n;
}

/* Ends the process if Lua has not run within a limit. Returns after how many ms to call this again, or -1. */
static int check_limits(Database *db) {
  bool has_failed;
  int ms;
  Job *late = limits_late(db, &has_failed, &ms);
  if (!late) return ms;
  (void)pthread_mutex_lock(&db->use);
  if (has_failed && db->connection && !db->tx) {
    run_statements(db, late, begin_batch);
    if (db->in_batch) (void)connection_do(db, "commit");
  }
  limit_end_process(late->text, "");
}

void batch_close(Database *db) {
  (void)pthread_mutex_lock(&db->use);
  if (db->connection) connection_close(db); /* this rolls back a Lua transaction */
  (void)pthread_mutex_unlock(&db->use);
}

void *batch_run(void *data) {
  Database *db = (Database *)data;
  while (!thread_ends(&db->thread)) {
    batch_work(db);
    bool is_told = events_post(&db->events);
    struct pollfd fd = {.fd = wakeup_fd(db->thread.wakeup), .events = POLLIN};
    int ms = check_limits(db);
    (void)poll(&fd, 1, is_told ? ms : 10);
    (void)wakeup_consume(db->thread.wakeup);
  }
  batch_close(db); /* in this thread, since it may take long: it copies the WAL into the file */
  return NULL;
}
