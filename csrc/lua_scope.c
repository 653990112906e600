/* lua_scope.c: what scopes (lua/runnel/scope.lua) need of the core: to learn of every end of a go block, and to wait. */
#include "go.h"
#include "lua_face.h"

/* The function has returned what lies above the guard. */
static int guarded_returned(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  lua_getfield(L, 1, "returned");
  lua_insert(L, 2);
  lua_pushvalue(L, 1);
  lua_insert(L, 3);
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

/* guarded(guard, f, ...) -> what guard:returned(what f(...) returns) returns. The guard is closed in any case, also where
   the coroutine is closed by somebody else. The body of a go block. */
static int core_guarded(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, guarded_returned);
  return guarded_returned(L, LUA_OK, 0);
}

/* self(what or nil) -> the result channel of the running go block; nil outside any, or in a coroutine of the user's own.
   With `what` it raises where an operation of that name could not wait. */
static int core_self(lua_State *L) {
  Sched *S = sched_self(L);
  const char *what = luaL_optstring(L, 1, NULL);
  if (what && sched_waiter(L, S, what) == &S->outside) lua_settop(S->outside.co, 0);
  if (S->current && S->current->alt.co == L) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
    lua_rawgeti(L, -1, S->current->chan.slot);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

/* join(ch): waits until ch closes. */
static int core_join(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "join", "join(ch)");
  if (ch->flags & CHAN_CLOSED) return 0;
  Alt *alt = sched_waiter(L, ch->sched, "a scope");
  alt->state = ALT_PARKED;
  alt->waiters = &alt->own.waiter;
  alt->count = 1;
  chan_wait(ch, &alt->own.waiter, alt, 1, false);
  return sched_wait(L, ch->sched, alt, "a scope", NULL);
}

/* is_cancellation(result, err) -> whether err is what the go block was cancelled with */
static int core_is_cancellation(lua_State *L) {
  face_check_chan(L, 1, "is_cancellation", "is_cancellation(result, err)");
  lua_settop(L, 2);
  lua_pushboolean(L, go_is_cancellation(L, 1, 2));
  return 1;
}

/* excuse(result, err): makes err that. Somebody else tells of it: on_error will not hear of it when the go block ends. */
static int core_excuse(lua_State *L) {
  face_check_chan(L, 1, "excuse", "excuse(result, err)");
  lua_settop(L, 2);
  chan_set_extra(L, 1, EXTRA_CANCEL);
  return 0;
}

void lua_scope_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"guarded", core_guarded}, {"self", core_self}, {"join", core_join},
      {"is_cancellation", core_is_cancellation}, {"excuse", core_excuse}, {NULL, NULL},
  };
  face_register(L, functions);
}
