/* go_close.c: see go_close.h. */
#include "blocks/go_close.h"

#include <lauxlib.h>
#include <string.h>

#include "core/setup.h"
#include "errors/error.h"
#include "lifetimes/root.h"

/* Closes all variables of a coroutine, protected. Lua 5.4.6 renamed the function. */
static int close_coroutine(lua_State *co) {
#if LUA_VERSION_RELEASE_NUM >= 50406
  return lua_closethread(co, NULL);
#else
  return lua_resetthread(co);
#endif
}

void go_close_finish(Sched *S, Go *go, lua_State *co) {
  enum { CALL_OF_CLOSE = 3 }; /* the function and its two arguments */
  go->alt.co = co;
  S->current = go;
  if (UNLIKELY(lua_gethookmask(co))) lua_sethook(co, NULL, 0, 0);
  /* lua_settop calls the guard's __close. With room on the stack, and from Lua 5.4.4 on, that cannot fail. */
  if (BEFORE_LUA_5_4_4 || UNLIKELY(!lua_checkstack(co, LUA_MINSTACK + CALL_OF_CLOSE + 1))) close_coroutine(co);
  lua_settop(co, 0);
  S->current = NULL;
}

bool go_close_is_running(lua_State *L) {
  enum { BELOW = 1, BELOW_X = 2 }; /* what pcall, and besides it xpcall, has on its stack below the call */
  const Sched *S = sched_self(L);
  int top = lua_gettop(L);
  luaL_checkstack(L, 3, NULL);
  bool is = false;
  lua_Debug ar;
  for (int level = 0; !is && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "nf", &ar);
    lua_CFunction f = lua_tocfunction(L, -1);
    is = ar.name && strcmp(ar.namewhat, "metamethod") == 0 && strcmp(ar.name, "close") == 0;
    for (int i = 0; f && i < 2; i++) is |= f == S->pcalls[i] && lua_getlocal(L, &ar, BELOW + i * BELOW_X + 1);
    lua_settop(L, top);
  }
  return is;
}

/* ---- the closer ---- */

/* (variables..., error): makes the variables, innermost first, its own, innermost last. Raises the error. */
static int reopen(lua_State *L) {
  int n = lua_gettop(L) - 1;
  for (int i = 1, j = n; i < j; i++, j--) {
    lua_pushvalue(L, i);
    lua_copy(L, j, i);
    lua_replace(L, j);
  }
  for (int i = 1; i <= n; i++) lua_toclose(L, i);
  return lua_error(L);
}

/* All variables are closed: (traceback, name, ..., error) -> error, traceback, name. */
static int reopened(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_insert(L, 1);
  lua_settop(L, 3);
  return 3;
}

/* The closer's function: (variables..., error, traceback, name) -> error, traceback, name. */
static int closer(lua_State *L) {
  int n = lua_gettop(L) - 3;
  lua_rotate(L, 1, 2); /* traceback, name, variables..., error */
  lua_pushcfunction(L, reopen);
  lua_insert(L, 3);
  return reopened(L, lua_pcallk(L, n + 1, LUA_MULTRET, 0, 0, reopened), 0);
}

/* (n): calls itself n levels deep. */
static int nest(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 1);
  if (n == 0) return 0;
  lua_pushcfunction(L, nest);
  lua_pushinteger(L, n - 1);
  lua_call(L, 1, 0);
  return 0;
}

/* Makes a new coroutine allocate now what its first calls need: once it has the variables, marking them must not fail.
   Returns false if memory runs out. */
static bool prepare(lua_State *co) {
  enum { LEVELS = 4 };         /* closer, reopen, a __close, and one more */
  lua_sethook(co, NULL, 0, 0); /* a new coroutine inherits the hook */
  lua_pushcfunction(co, nest);
  lua_pushinteger(co, LEVELS - 1);
  return lua_checkstack(co, LEVELS * LUA_MINSTACK) && lua_pcall(co, 1, 0, 0) == LUA_OK;
}

/* Protected, in the coroutine that is being closed: makes the closer, which the go block keeps alive. */
static int make_closer(lua_State *L) {
  Sched *S = sched_self(L);
  root_push(L, S->current);
  lua_State *co = lua_newthread(L);
  if (!prepare(co)) return luaL_error(L, "not enough memory");
  go_close_guard(L, co);
  lua_getiuservalue(L, SCHED_SELF, SCHED_CLOSER);
  lua_xmove(L, co, 1);
  lua_setiuservalue(L, -2, GO_COROUTINE);
  S->closer = co;
  return 0;
}

/* ---- the hook ---- */

/* Pushes argument i of the function that the hook was called for, which has it. */
static void push_argument(lua_State *co, const lua_Debug *ar, int i) {
  int extra = i - ar->nparams;
  if (!(ar->isvararg && extra > 0 && lua_getlocal(co, ar, -extra))) (void)lua_getlocal(co, ar, i);
}

/* Pushes the variable whose `__close` is called: the first argument; or the second, if `__close` is a value with
   `__call`, which Lua inserts as the first argument. */
static void push_variable(lua_State *co, lua_Debug *ar) {
  lua_getinfo(co, "fu", ar);
  int function = lua_gettop(co);
  push_argument(co, ar, 1);
  if (luaL_getmetafield(co, -1, "__close") != LUA_TNIL) {
    bool is_it = lua_rawequal(co, -1, function);
    lua_pop(co, 1);
    if (is_it) return;
  }
  lua_pop(co, 1);
  push_argument(co, ar, 2);
}

/* The call hook: moves a variable to the closer, and cancels the call of its `__close`; but not of the guard's. If
   memory runs out, cancels neither this call nor later ones. A coroutine that a finalizer makes inherits the hook.

   It cancels the call with Lua's own memory error, for which lua_error calls no message handler (from Lua 5.4.3 on).
   If a coroutine has yielded within an xpcall, Lua before 5.4.8 keeps the position of its message handler on the stack
   while it closes the coroutine: another error would call whatever is at that position by then. */
static void move_variable(lua_State *co, lua_Debug *ar) {
  int top = lua_gettop(co), sched = top + 1, guard = top + 2;
  lua_rawgetp(co, LUA_REGISTRYINDEX, &chan_tag);
  Sched *S = (Sched *)lua_touserdata(co, sched);
  lua_getiuservalue(co, sched, SCHED_GUARD);
  if (co != S->closing) {
    lua_sethook(co, NULL, 0, 0);
    return;
  }
  push_variable(co, ar);
  if (lua_rawequal(co, -1, guard)) return;
  if (!S->closer) {
    lua_getiuservalue(co, sched, SCHED_MAKE_CLOSER);
    if (lua_pcall(co, 0, 0, 0) != LUA_OK) lua_pop(co, 1);
  }
  if (!S->closer || !lua_checkstack(S->closer, LUA_MINSTACK)) {
    lua_sethook(co, NULL, 0, 0);
    return;
  }
  lua_xmove(co, S->closer, 1);
  lua_pushliteral(co, "not enough memory");
  lua_error(co);
}

int go_close_start(lua_State *L, Sched *S, Go *go) {
  lua_State *co = go->alt.co;
  int top = lua_gettop(L);
  root_push(L, go);
  lua_getiuservalue(L, -1, GO_COROUTINE); /* keeps it alive until it is closed */
  S->closer = NULL;
  S->current = go;
  S->closing = co;
  lua_sethook(co, move_variable, LUA_MASKCALL, 0);
  int status = close_coroutine(co);
  S->closing = NULL;
  lua_sethook(co, NULL, 0, 0);
  if (status != LUA_OK && !S->closer) {
    lua_xmove(co, L, 1);
    lua_replace(L, top - 2);
    error_name_overflow(L, status, top - 2);
  }
  lua_settop(co, 0);
  lua_settop(L, top);
  if (!S->closer) return 0;
  lua_State *closes = go->alt.co = S->closer;
  S->closer = NULL;
  /* The closer has inherited move_variable as its hook: give it the hook of L instead. */
  lua_sethook(closes, lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L));
  lua_xmove(L, closes, 3);
  return lua_gettop(closes) - 2; /* below are the guard and the function */
}

void go_close_open(lua_State *L) {
  lua_pushglobaltable(L);
  for (int i = 0; i < 2; i++) {
    lua_pushstring(L, i ? "xpcall" : "pcall");
    lua_rawget(L, -2);
    sched_self(L)->pcalls[i] = lua_tocfunction(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  setup_keep_function(L, SCHED_CLOSER, closer);
  setup_keep_function(L, SCHED_MAKE_CLOSER, make_closer);
}
