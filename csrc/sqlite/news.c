/* news.c: tells Lua which jobs are done; see database.h and kit/events.h. The Lua thread. */
#include "sqlite/database.h"

void news_leave(lua_State *L, Job *job) {
  Database *db = job->database;
  if (job->ref == LUA_NOREF) return;
  if (handle_find(L, db)) { /* otherwise the state is being closed */
    lua_getiuservalue(L, -1, DATABASE_CHANNELS);
    luaL_unref(L, -1, job->ref); /* allocates nothing, since the reference exists */
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  job->ref = LUA_NOREF;
  if (--db->under_way > 0) return;
  events_close(&db->events);
  handle_forget(L, db);
}

/* Puts true on the channel of a job. If memory runs out, closes the channel, which has the same effect. False if there
   is no memory for that either. The database is at index 2, its channels above. */
static bool show(lua_State *L, Job *job) {
  bool is_shown = job->ref == LUA_NOREF;
  for (int how = DATABASE_OFFER; !is_shown && how <= DATABASE_CLOSE; how++) {
    lua_getiuservalue(L, 2, how);
    lua_rawgeti(L, 3, job->ref);
    if (how == DATABASE_OFFER) lua_pushboolean(L, 1);
    is_shown = lua_pcall(L, how == DATABASE_OFFER ? 2 : 1, 0, 0) == LUA_OK;
    lua_settop(L, 3);
  }
  return is_shown;
}

static Job *take(Database *db) {
  database_lock(db);
  Job *job = job_take(&db->done);
  database_unlock(db);
  return job;
}

/* Puts a job back to the front of Database.done. */
/* seldom covered: only when memory runs out */
static void put_back(Database *db, Job *job) {
  database_lock(db);
  list_append(&db->done, &job->link);
  db->done.first = &job->link;
  database_unlock(db);
  events_add(&db->events, db, 1);
}

int news_deliver(lua_State *L) {
  Database *db = (Database *)lua_touserdata(L, 1);
  unsigned bits;
  Database *told = (Database *)events_take(&db->events, &bits);
  if (told) handle_release(told);
  if (!handle_find(L, db)) return 0;
  lua_getiuservalue(L, 2, DATABASE_CHANNELS);
  Job *job;
  while ((job = take(db)) != NULL) {
    job->is_told = true;
    if (!show(L, job)) {
      put_back(db, job); /* seldom covered: only when memory runs out */
      return 0;
    }
    news_leave(L, job);
    handle_release(job);
  }
  return 0;
}
