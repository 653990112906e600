/* unwind.c: see unwind.h. */
#include "unwind.h"

#include <lauxlib.h>

#include "anchor.h"
#include "report.h"
#include "sched.h"

#if BEFORE_LUA_5_4_4

/* Message handler: keeps the name of the go block, too, which is found by its stack. */
static int keep(lua_State *L) {
  const Sched *S = sched_self(L);
  (void)report_keep_traceback(L);
  if (S->current && S->current->alt.co == L) {
    anchor_push(L, S->current);
    report_go_name(L, S->current, 2);
    chan_set_extra(L, 2, EXTRA_GO);
    lua_settop(L, 1);
  }
  return 1;
}

/* The function has returned its results, above the handler, or raised; then its variables are closed. */
static int after_body(lua_State *L, int status, lua_KContext context) {
  (void)context;
  if (status != LUA_OK && status != LUA_YIELD) return lua_error(L);
  return lua_gettop(L) - 1;
}

/* The second upvalue of what follows; the first is the scheduler. */
#define HANDLER lua_upvalueindex(2)

/* The function of a coroutine: (function, arguments...). */
static int body(lua_State *L) {
  lua_pushvalue(L, HANDLER);
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
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, keep, 1);
  lua_pushcclosure(L, body, 2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_UNWIND);
}

#else

typedef int UnwindNothing; /* a file of C has to have something */

#endif
