/* sched_wakeup.c: see sched_wakeup.h. */
#include "core/sched_wakeup.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "base/wakeup.h"
#include "core/setup.h"

/* __gc of the userdata that owns the wakeup, when the state is closed. Other threads may still hold the wakeup. */
static int end_wakeup(lua_State *L) {
  Sched *S = sched_self(L);
  if (S->wakeup) wakeup_release(S->wakeup);
  S->wakeup = NULL;
  return 0;
}

Wakeup *sched_wakeup(lua_State *L, Sched *S) {
  if (S->wakeup) return S->wakeup;
  int top = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_WAKEUP) != LUA_TNIL) luaL_error(L, "the lua_State is being closed");
  lua_newuserdatauv(L, 0, 0);
  setup_push_meta(L, "__gc", end_wakeup);
  if (!S->wakeup) { /* else a finalizer has made it meanwhile */
    Wakeup *wakeup = wakeup_new();
    if (!wakeup && errno != ENOMEM) luaL_error(L, "cannot make a file descriptor: %s", strerror(errno));
    if (wakeup) {
      S->wakeup = wakeup;
      lua_setmetatable(L, -2);
      lua_setiuservalue(L, SCHED_SELF, SCHED_WAKEUP);
    }
  }
  lua_settop(L, top);
  return S->wakeup;
}

int sched_wakeup_fd(const Sched *S) { return S->wakeup ? wakeup_fd(S->wakeup) : -1; }
