/* driver.c: see driver.h. */
#include "driver.h"

#include <lauxlib.h>
#include <signal.h>
#include <sys/select.h>

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

void driver_check_hook(lua_State *L) {
  if (LIKELY(!lua_gethookmask(L))) return;
  lua_pushcfunction(L, nothing);
  lua_call(L, 0, 0);
}

/* Sleeps. Signals are held back between the look at the hook and the sleep, so that none falls in between unnoticed. */
static void sleep_ns(lua_State *L, int64_t ns) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  if (!lua_gethookmask(L)) {
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    pselect(0, NULL, NULL, NULL, ns < 0 ? NULL : &ts, &old);
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void driver_wait(lua_State *L, Sched *S, int64_t ns) {
  if (S->world.clock.is_virtual) {
    if (ns > 0) clock_jump(&S->world.clock, S->world.clock.virtual_ns + ns);
    return;
  }
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER) == LUA_TNIL) {
    lua_pop(L, 1);
    if (ns != 0) sleep_ns(L, ns);
    driver_check_hook(L);
    return;
  }
  lua_getfield(L, -1, "wait");
  lua_insert(L, -2);
  if (ns < 0) lua_pushnil(L);
  else lua_pushnumber(L, (lua_Number)ns / (lua_Number)CLOCK_MS);
  lua_call(L, 2, 0);
  driver_check_hook(L);
}

bool driver_alive(lua_State *L) {
  Sched *S = sched_self(L);
  if (S->world.clock.is_virtual) return false;
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER) == LUA_TNIL) {
    lua_pop(L, 1);
    return false;
  }
  lua_getfield(L, -1, "alive");
  lua_insert(L, -2);
  lua_call(L, 1, 1);
  bool alive = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return alive;
}
