/* driver.c: see driver.h. */
#include "blocks/driver.h"

#include <lauxlib.h>
#include <unistd.h>

#include "base/sleep.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "core/sched_wakeup.h"
#include "states/shared_wait.h"

bool driver_has_news(const Sched *S) { return (S->wakeup && wakeup_is_pending(S->wakeup)) || shared_wait_has_news(S); }

int driver_nothing(lua_State *L) {
  (void)L;
  return 0;
}

void driver_check_hook(lua_State *L, Sched *S) {
  S->hook = NULL;
  if (LIKELY(!lua_gethookmask(L))) return;
  lua_Hook hook = lua_gethook(L);
  lua_pushcfunction(L, driver_nothing);
  lua_call(L, 0, 0);
  if (lua_gethook(L) == hook) S->hook = hook;
}

/* Whether a debug hook is to be run: one that was there when driver_check_hook was last called, and has stayed, is not. */
static bool has_new_hook(lua_State *L, const Sched *S) { return lua_gethookmask(L) && lua_gethook(L) != S->hook; }

enum { MAX_WAIT_NO_WAKEUP_MS = 10 }; /* the longest wait in a driver that does not watch the wakeup */

/* Sleeps until `fd` or `other` (unless negative) is readable, or the wakeup is signalled. Blocks signals between the
   check of the debug hook and the sleep: a signal in between would not end the sleep. Returns as sleep_on. */
static bool sleep_ns(lua_State *L, const Sched *S, int fd, int other, int64_t ns) {
  const int fds[SLEEP_FDS] = {fd, other, sched_wakeup_fd(S), S->input_is_watched ? STDIN_FILENO : -1};
  sigset_t old;
  signals_block(&old);
  bool is_over = has_new_hook(L, S) || sleep_on(fds, ns, &old);
  signals_restore(&old);
  return is_over;
}

bool driver_wait_readable(lua_State *L, Sched *S, int fd, int other, int64_t ns) {
  S->wakeup_is_watched = true;
  if (S->stop || S->world.ready.first) return false;
  Timer *first = heap_first(&S->world.heap);
  if (first) {
    int64_t left = first->deadline - clock_now(&S->world.clock);
    if (left <= 0) return false;
    if (ns < 0 || left < ns) ns = left;
  }
  bool is_over = ns == 0 || sleep_ns(L, S, fd, other, ns);
  driver_check_hook(L, S);
  return is_over;
}

/* Waits in the driver on top of L, and pops it. */
static void wait_in(lua_State *L, const Sched *S, int64_t ns) {
  const int64_t longest = MAX_WAIT_NO_WAKEUP_MS * CLOCK_MS;
  bool may_have_news = driver_has_ports(S) || shared_wait_is_alive(L, S) || S->watch_hook;
  if (may_have_news && !S->wakeup_is_watched && (ns < 0 || ns > longest)) ns = longest;
  lua_getfield(L, -1, "wait");
  lua_insert(L, -2);
  if (ns < 0) lua_pushnil(L);
  else lua_pushnumber(L, (lua_Number)ns / (lua_Number)CLOCK_MS);
  lua_call(L, 2, 0);
}

void driver_wait(lua_State *L, Sched *S, int64_t ns) {
  if (S->world.clock.is_virtual) {
    if (ns > 0) clock_jump(&S->world.clock, S->world.clock.virtual_ns + ns);
    return;
  }
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER) == LUA_TNIL) {
    lua_pop(L, 1);
    if (ns != 0) (void)sleep_ns(L, S, -1, -1, ns);
  } else {
    wait_in(L, S, ns);
  }
  driver_check_hook(L, S);
  if (UNLIKELY(S->wakeup) && wakeup_consume(S->wakeup) && S->port_hook) S->port_hook->poll(L, S);
}

bool driver_has_events(lua_State *L) {
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

bool driver_alive(lua_State *L) {
  const Sched *S = sched_self(L);
  if (S->world.clock.is_virtual) return false;
  return driver_has_ports(S) || shared_wait_is_alive(L, S) || driver_has_events(L);
}
