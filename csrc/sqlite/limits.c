/* limits.c: time limits of calls of Lua, for stages of runnel.store. A call that waits is cancelled by Lua. One that
   computes blocks Lua; then the thread of the database stores that the call has failed, and ends the process.

   A limit is a job that runs only then. The Lua thread makes it and closes it; Database.limits has it meanwhile. */
#include "kit/limit.h"
#include "sqlite/database.h"

/* The longest time between two looks, in ms. */
enum { LONGEST_MS = 60000 };

static bool is_over(const Job *limit, int64_t now) { return now >= limit->asked + limit->ms; }

/* Whether several calls may block Lua: then none counts as failed. */
static bool may_several_block(Database *db, int64_t now) {
  int suspects = 0;
  for (Link *link = db->limits.first; link; link = list_next(&db->limits, link)) {
    const Job *limit = CONTAINER_OF(link, Job, link);
    if (limit_may_block(limit->asked, limit->ms, atomic_load(&db->alive_at), now)) suspects++;
  }
  return suspects > 1;
}

Job *limits_late(Database *db, bool *has_failed, int *ms) {
  int64_t now = clock_ms(), next = INT64_MAX;
  Job *late = NULL;
  database_lock(db);
  if (now - db->looks_at > LIMIT_HALTED_MS) atomic_store(&db->alive_at, now); /* Lua could not run either */
  for (Link *link = db->limits.first; link; link = list_next(&db->limits, link)) {
    Job *limit = CONTAINER_OF(link, Job, link);
    int64_t at = is_over(limit, now) ? limit_last(limit->asked, limit->ms, atomic_load(&db->alive_at))
                                     : limit->asked + limit->ms;
    if (now >= at) late = limit;
    if (at < next) next = at;
  }
  if (late) (void)handle_hold(late);
  *has_failed = !may_several_block(db, now);
  db->looks_at = next;
  database_unlock(db);
  *ms = next == INT64_MAX ? -1 : next - now > LONGEST_MS ? LONGEST_MS : (int)(next - now);
  return late;
}

void limits_add(Database *db, Job *limit) {
  database_lock(db);
  list_append(&db->limits, &limit->link);
  database_unlock(db);
  thread_wake(&db->thread);
}

void limits_remove(Database *db, Job *limit) {
  bool has_it;
  database_lock(db);
  has_it = limit->is_limited;
  if (has_it) list_remove(&db->limits, &limit->link);
  limit->is_limited = false;
  database_unlock(db);
  if (has_it) handle_release(limit);
}

void limits_drop(Database *db) {
  database_lock(db);
  while (db->limits.first) {
    Job *limit = job_take(&db->limits); /* seldom covered: a call ends as its store is closed, or just before */
    limit->is_limited = false;
    handle_release(limit);
  }
  database_unlock(db);
}

int limits_alive(lua_State *L) {
  Database *db = (Database *)handle_check(L, 1, DATABASE_TYPE);
  atomic_store(&db->alive_at, clock_ms());
  return 0;
}
