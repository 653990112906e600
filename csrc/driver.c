/* driver.c: see driver.h. */
#include "driver.h"

#include <lauxlib.h>
#include <poll.h>
#include <signal.h>
#include <sys/select.h>

int driver_nothing(lua_State *L) {
  (void)L;
  return 0;
}

void driver_check_hook(lua_State *L) {
  if (LIKELY(!lua_gethookmask(L))) return;
  lua_pushcfunction(L, driver_nothing);
  lua_call(L, 0, 0);
}

enum { BLIND_MS = 100 /* the longest wait that does not see signals */ };

/* Sleeps until `fd`, unless it is negative, is readable. Signals are held back between the look at the hook and the sleep,
   so that none falls in between unnoticed. */
static void sleep_ns(lua_State *L, int fd, int64_t ns) {
  if (fd >= FD_SETSIZE) { /* too large for pselect */
    int ms = ns < 0 || ns > BLIND_MS * CLOCK_MS ? BLIND_MS : (int)((ns + CLOCK_MS - 1) / CLOCK_MS);
    poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms);
    return;
  }
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  if (!lua_gethookmask(L)) {
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    fd_set readable;
    FD_ZERO(&readable);
    if (fd >= 0) FD_SET(fd, &readable);
    pselect(fd + 1, &readable, NULL, NULL, ns < 0 ? NULL : &ts, &old);
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void driver_wait_readable(lua_State *L, Sched *S, int fd, int64_t ns) {
  World *w = &S->world;
  if (S->stop || w->ready.first) return;
  Timer *first = heap_first(&w->heap);
  if (first) {
    int64_t left = first->deadline - clock_now(&w->clock);
    if (left <= 0) return;
    if (ns < 0 || left < ns) ns = left;
  }
  if (ns != 0) sleep_ns(L, fd, ns);
  driver_check_hook(L);
}

void driver_wait(lua_State *L, Sched *S, int64_t ns) {
  if (S->world.clock.is_virtual) {
    if (ns > 0) clock_jump(&S->world.clock, S->world.clock.virtual_ns + ns);
    return;
  }
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER) == LUA_TNIL) {
    lua_pop(L, 1);
    if (ns != 0) sleep_ns(L, -1, ns);
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
