/* lua/check.c: see check.h. */
#include "lua/check.h"

#include <lauxlib.h>
#include <math.h>

#include "errors/error.h"
#include "lifetimes/root.h"
#include "states/shared_handle.h"

/* Pushes the key of the function that runs at a level, in the module on top of the stack, and returns true; or pushes
   nothing. */
static bool push_name(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "f", ar);
  lua_pushnil(L);
  while (lua_next(L, -3)) {
    bool is = lua_rawequal(L, -1, -3);
    lua_pop(L, 1);
    if (is) return true;
  }
  lua_pop(L, 1);
  return false;
}

void check_no_module(lua_State *L, int i) {
  lua_pushvalue(L, i);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "runnel");
  if (lua_istable(L, -1) && lua_rawequal(L, -1, -3)) {
    /* A simulation replaces some functions, which then call this one. */
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
      if (!push_name(L, &ar)) continue;
      const char *name = lua_tostring(L, -1);
      luaL_where(L, level + 1);
      lua_pushfstring(L, "%srn.%s: call it with a dot: rn.%s(...)", lua_tostring(L, -1), name, name);
      lua_error(L);
    }
    luaL_error(L, "this got the module: call functions with a dot, as rn.go(f), not with a colon");
  }
  lua_pop(L, 3);
}

const char *check_got(lua_State *L, int i) {
  if (lua_isnone(L, i)) return "nothing";
  if (chan_to(L, i)) return "a channel";
  check_no_module(L, i);
  return luaL_typename(L, i);
}

int check_raise_not_chan(lua_State *L, int i, const char *what, const char *usage) {
  return luaL_error(L, "%s: a channel expected, got %s; call it as %s", what, check_got(L, i), usage);
}

Chan *check_shared(lua_State *L, int i) {
  Chan *ch = chan_to(L, i);
  luaL_argcheck(L, ch && chan_is_shared(ch), i, "a shared channel expected");
  return ch;
}

int64_t check_ms(lua_State *L, int i, const char *what) {
  int is_number;
  lua_Number ms = lua_tonumberx(L, i, &is_number);
  if (UNLIKELY(!is_number || lua_type(L, i) != LUA_TNUMBER)) {
    luaL_error(L, "%s: a number of milliseconds expected, got %s", what, check_got(L, i));
  }
  if (UNLIKELY(!(ms >= 0))) {
    luaL_error(L, "%s: a time of 0 ms or more expected, got %s", what, luaL_tolstring(L, i, NULL));
  }
  if (UNLIKELY(ms == (lua_Number)HUGE_VAL)) {
    luaL_error(L, "%s: a finite time expected, got infinity; to wait for ever, take from a channel that stays open",
               what);
  }
  lua_Number ns = ms * (lua_Number)CLOCK_MS;
  /* A time beyond the clock's range means forever. */
  return ns < (lua_Number)(INT64_MAX / 2) ? (int64_t)ns : INT64_MAX;
}

void check_push_ms(lua_State *L, int64_t ns) {
  if (ns % CLOCK_MS == 0) lua_pushinteger(L, (lua_Integer)(ns / CLOCK_MS));
  else lua_pushnumber(L, (lua_Number)ns / (lua_Number)CLOCK_MS);
}

void check_callable(lua_State *L, int i, const char *what) {
  if (LIKELY(lua_isfunction(L, i))) return;
  if (luaL_getmetafield(L, i, "__call") != LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  luaL_error(L, "%s: a function expected, got %s", what, check_got(L, i));
}
