/* lua/scope.c: what scopes (lua/runnel/scope.lua) need of the core: to learn of every end of a go block, and to
   wait. */
#include "core/attr.h"
#include "core/go.h"
#include "core/park.h"
#include "core/root.h"
#include "lua/face.h"

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

/* guarded(guard, f, ...) -> what guard:returned(what f(...) returns) returns. The guard is closed in any case, also
   where the coroutine is closed by somebody else. The body of a go block. */
static int core_guarded(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, guarded_returned);
  return guarded_returned(L, LUA_OK, 0);
}

/* self(what) -> the result channel of the running go block, or nil outside any; raises where `what` could not wait. */
static int core_self(lua_State *L) {
  Sched *S = sched_self(L);
  Alt *alt = park_begin(L, S, &(Operation){.name = luaL_checkstring(L, 1), .level = 2});
  if (alt == &S->outside) {
    lua_settop(alt->co, 0);
    lua_pushnil(L);
    return 1;
  }
  root_push(L, sched_go(alt));
  return 1;
}

/* join(ch): waits until ch closes. */
static int core_join(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "join", "join(ch)");
  if (ch->flags & CHAN_CLOSED) return 0;
  static const Operation join = {.name = "a scope", .level = 1, .is_free = true};
  return park_on(L, ch, 1, &join, NULL);
}

/* is_cancellation(result, err) -> whether err is what the go block was cancelled with */
static int core_is_cancellation(lua_State *L) {
  face_check_chan(L, 1, "is_cancellation", "is_cancellation(result, err)");
  lua_settop(L, 2);
  lua_pushboolean(L, go_is_cancellation(L, 1, 2));
  return 1;
}

/* has_ended(result) -> whether the go block has */
static int core_has_ended(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "has_ended", "has_ended(result)");
  lua_pushboolean(L, ch->slot == 0);
  return 1;
}

/* excuse(result, err): makes err count as what the go block was cancelled with, so that it is not reported when the go
   block ends. The caller reports it, or passes it on. */
static int core_excuse(lua_State *L) {
  face_check_chan(L, 1, "excuse", "excuse(result, err)");
  lua_settop(L, 2);
  attr_set(L, 1, ATTR_CANCEL);
  return 0;
}

void lua_scope_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"guarded", core_guarded}, {"self", core_self}, {"join", core_join},
      {"is_cancellation", core_is_cancellation}, {"excuse", core_excuse}, {"has_ended", core_has_ended}, {NULL, NULL},
  };
  face_register(L, functions);
}
