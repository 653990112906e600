/* watch.c: see watch.h. */
#include "core/watch.h"

#include <lauxlib.h>

#include "base/wakeup.h"
#include "core/driver.h"

static void ask(Watch *watch) {
  atomic_store(&watch->asked, true);
  wakeup_signal(watch->wakeup);
}

void watch_call(lua_State *L, Sched *S) {
  atomic_store(&S->watch->asked, false); /* first: who asks during the call is served by the next one */
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  const char *outer = sched_set_inside(S, "the monitor");
  lua_getiuservalue(L, SCHED_SELF, SCHED_WATCHER);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  sched_set_inside(S, outer);
}

/* __gc of a Watch. Its thread has ended. */
static int finalize(lua_State *L) {
  Watch *watch = (Watch *)lua_touserdata(L, 1);
  if (watch->wakeup) wakeup_release(watch->wakeup);
  watch->wakeup = NULL;
  Sched *S = sched_self(L);
  if (S->watch == watch) S->watch = NULL;
  return 0;
}

void watch_begin(lua_State *L, Sched *S, int f) {
  if (S->watch) luaL_error(L, "this Lua state is being watched already");
  Wakeup *wakeup = driver_wakeup(L, S);
  if (!wakeup) luaL_error(L, "not enough memory"); /* uncovered: only when memory runs out */
  Watch *watch = (Watch *)lua_newuserdatauv(L, sizeof(Watch), 0);
  *watch = (Watch){.release = WATCH_RELEASE, .ask = ask};
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, finalize, 1);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  watch->wakeup = wakeup_hold(wakeup);
  lua_pushvalue(L, f);
  lua_setiuservalue(L, SCHED_SELF, SCHED_WATCHER);
  S->watch = watch;
}

void watch_end(lua_State *L, Sched *S) {
  S->watch = NULL;
  lua_pushnil(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_WATCHER);
}

void watch_wait_begins(Sched *S) { atomic_store(&S->watch->waiting, clock_now(&(Clock){0})); }

void watch_wait_ends(Sched *S) {
  int64_t since = atomic_exchange(&S->watch->waiting, 0);
  if (since) atomic_fetch_add(&S->watch->waited, clock_now(&(Clock){0}) - since);
}
