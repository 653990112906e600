/* sched_wakeup.c: see sched_wakeup.h. */
#include "core/sched_wakeup.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "base/wakeup.h"

Wakeup *sched_wakeup(lua_State *L, Sched *S) {
  if (S->wakeup) return S->wakeup;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_END) == LUA_TNIL) luaL_error(L, "the lua_State is being closed");
  lua_pop(L, 1);
  S->wakeup = wakeup_new(); /* lua/state/open.c releases it; other threads may still hold it then */
  if (!S->wakeup && errno != ENOMEM) luaL_error(L, "cannot make a file descriptor: %s", strerror(errno));
  return S->wakeup;
}

int sched_wakeup_fd(const Sched *S) { return S->wakeup ? wakeup_fd(S->wakeup) : -1; }
