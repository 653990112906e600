/* unwind.c: see unwind.h. */
#include "unwind.h"

#include <lauxlib.h>

#include "report.h"
#include "sched.h"

#if BEFORE_LUA_5_4_4

/* Message handler: keeps the traceback, and the name that is found by it. */
static int keep(lua_State *L) {
  const Sched *S = sched_self(L);
  luaL_traceback(L, L, NULL, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
  if (S->current && S->current->alt.co == L) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
    lua_rawgeti(L, -1, S->current->chan.slot);
    report_go_name(L, S->current, lua_gettop(L));
    chan_set_extra(L, lua_gettop(L) - 1, EXTRA_GO);
  }
  lua_settop(L, 1);
  return 1;
}

/* The function has returned its results, above the handler, or raised; then its variables are closed. */
static int after_body(lua_State *L, int status, lua_KContext context) {
  (void)context;
  if (status != LUA_OK && status != LUA_YIELD) return lua_error(L);
  return lua_gettop(L) - 1;
}

/* The function of a coroutine: (function, arguments...). */
static int body(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNWIND_KEEP);
  lua_insert(L, 1);
  return after_body(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, after_body), 0);
}

int unwind_wrap(lua_State *L, int nargs) {
  if (!BEFORE_LUA_5_4_3) return nargs;
  luaL_checkstack(L, 1, NULL);
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNWIND);
  lua_insert(L, -nargs - 2);
  return nargs + 1;
}

void unwind_open(lua_State *L) {
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, body, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_UNWIND);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, keep, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_UNWIND_KEEP);
}

#else

typedef int UnwindNothing; /* a file of C has to have something */

#endif
