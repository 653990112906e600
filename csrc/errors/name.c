/* name.c: see name.h. */
#include "errors/name.h"

#include <lauxlib.h>
#include <string.h>

#include "core/attr.h"
#include "errors/origin.h"
#include "errors/traceback.h"

bool name_find_function(lua_State *co, lua_Debug *ar) {
  int level = traceback_count_levels(co) - 1;
  if (!lua_getstack(co, level, ar)) return false;
  lua_getinfo(co, "S", ar);
  lua_Debug inner;
  for (level--; ar->linedefined < 0 && level >= 0 && lua_getstack(co, level, &inner); level--) {
    lua_getinfo(co, "S", &inner);
    if (inner.linedefined > 0) *ar = inner;
  }
  return true;
}

bool name_push_function(lua_State *L, const Go *go, int at) {
  lua_State *co = go->alt.co;
  lua_Debug ar;
  attr_push(L, at, ATTR_GO);
  bool has_other = !lua_isnil(L, -1) || go->origin || go->host;
  lua_pop(L, 1);
  if (has_other || !lua_checkstack(co, 1) || !name_find_function(co, &ar)) return false;
  lua_getinfo(co, "f", &ar);
  lua_xmove(co, L, 1);
  return true;
}

/* Pushes the name of a function that is described by `ar`. */
static void push_place(lua_State *L, const lua_Debug *ar) {
  if (ar->linedefined > 0) lua_pushfstring(L, "%s:%d", ar->short_src, ar->linedefined);
  else lua_pushstring(L, ar->short_src);
}

void name_write(lua_State *L, int i) {
  lua_Debug ar;
  lua_pushvalue(L, i);
  lua_getinfo(L, ">S", &ar);
  push_place(L, &ar);
  lua_replace(L, i);
}

/* The closer of a dying go block has the function after which that is named in this place: describes it, and returns
   true. */
static bool find_dead_function(lua_State *co, lua_Debug *ar) {
  enum { NAME_AT = 2 };
  if (!lua_checkstack(co, 1) || !lua_getstack(co, traceback_count_levels(co) - 1, ar)) return false;
  if (!lua_getlocal(co, ar, NAME_AT)) return false;
  bool is = lua_isfunction(co, -1);
  if (is) lua_getinfo(co, ">S", ar);
  else lua_pop(co, 1); /* uncovered: there was no memory for its name */
  return is;
}

/* Pushes onto `co` the function of a go block that has not started, which lies below its `n` arguments; or, if that is
   a C function, the first argument that is a Lua function. */
static void push_function(lua_State *co, int n) {
  int at = lua_gettop(co) - n, i = at;
  while (i < at + n && (!lua_isfunction(co, i) || lua_iscfunction(co, i))) i++;
  lua_pushvalue(co, lua_isfunction(co, i) && !lua_iscfunction(co, i) ? i : at);
}

/* Whether a coroutine that has not started has the function of its go block still on its stack: a finalizer may have
   ended the go block. */
static bool has_function(const Go *go) { return lua_gettop(go->alt.co) > go->alt.nresults; }

/* Fills in the function of a go block that has not started, and returns true; false if that is a value with a __call
   metamethod. The go block has its function. */
static bool find_new_function(const Go *go, lua_Debug *ar) {
  lua_State *co = go->alt.co;
  push_function(co, go->alt.nresults);
  bool is = lua_isfunction(co, -1);
  if (is) lua_getinfo(co, ">S", ar);
  else lua_pop(co, 1);
  return is;
}

bool name_push_target(lua_State *L, int at) {
  if (!(((const Chan *)lua_touserdata(L, at))->flags & CHAN_FEEDS)) return false;
  int top = lua_gettop(L);
  if (lua_getiuservalue(L, at, GO_FED) == LUA_TTABLE) {
    lua_pushliteral(L, "to");
    if (lua_rawget(L, top + 1) == LUA_TNIL) {
      lua_pushliteral(L, "out");
      lua_rawget(L, top + 1);
    }
  }
  if (chan_to(L, -1)) {
    lua_copy(L, -1, top + 1);
    lua_settop(L, top + 1);
    return true;
  }
  lua_settop(L, top);
  return false;
}

/* Pushes the name of a go block that the library has started, as "pipe at job.lua:2 -> chan: results", and returns
   true; or pushes nothing. */
static bool push_origin_name(lua_State *L, const Go *go, int at, bool has_numbers) {
  if (!origin_push(L, go->origin)) return false;
  if (name_push_target(L, at)) {
    if (!has_numbers) {
      attr_push(L, lua_gettop(L), ATTR_NAME);
      bool is_named = lua_type(L, -1) == LUA_TSTRING;
      lua_pop(L, is_named ? 1 : 2);
      if (!is_named) return true;
    }
    attr_push_name(L, (const Chan *)lua_touserdata(L, -1), lua_gettop(L));
    lua_pushfstring(L, "%s -> %s", lua_tostring(L, -3), lua_tostring(L, -1));
    lua_replace(L, -4);
    lua_pop(L, 2);
  }
  return true;
}

/* See name_push_go and name_push_label. */
static void push_name(lua_State *L, Go *go, int at, bool has_numbers) {
  attr_push(L, at, ATTR_GO);
  if (lua_type(L, -1) == LUA_TSTRING) return;
  lua_pop(L, 1);
  lua_State *co = go->alt.co;
  lua_Debug ar;
  if (go->chan.flags & CHAN_DYING && co && find_dead_function(co, &ar)) {
    push_place(L, &ar);
    return;
  }
  if (!co || !name_find_function(co, &ar)) {
    bool has = co && has_function(go); /* else it was ended while it was being listed */
    if (!has || !find_new_function(go, &ar)) {
      lua_pushstring(L, has ? "[C]" : "?");
      return;
    }
  }
  if (go->origin && origin_is_library(L, &ar) && push_origin_name(L, go, at, has_numbers)) return;
  push_place(L, &ar);
}

/* Its address is the registry's key of the names of hosts. */
static const char hosts_key = 0;

void name_set_hosts(lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &hosts_key); }

void name_add_host(lua_State *L, uint32_t host) {
  if (LIKELY(!host)) return;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &hosts_key) == LUA_TTABLE) {
    if (lua_rawgeti(L, -1, host) == LUA_TSTRING) {
      lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), lua_tostring(L, -3));
      lua_replace(L, -4);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void name_push_go(lua_State *L, Go *go, int at) {
  push_name(L, go, at, true);
  name_add_host(L, go->host);
}

void name_push_label(lua_State *L, Go *go, int at) {
  push_name(L, go, at, false);
  name_add_host(L, go->host);
}

bool name_is_library(lua_State *L, const Go *go) {
  lua_State *co = go->alt.co;
  lua_Debug ar;
  if (!co) return false;
  if (!name_find_function(co, &ar) && (!has_function(go) || !find_new_function(go, &ar))) return false;
  return ar.linedefined < 0 ? go->origin != 0 : origin_is_library(L, &ar);
}

bool name_find_where(lua_State *L, const Go *go, lua_Debug *ar) {
  lua_State *co = go->alt.co;
  int innermost = -1;
  for (int level = 0; co && lua_getstack(co, level, ar); level++) {
    lua_getinfo(co, "Sl", ar);
    if (ar->currentline <= 0) continue;
    if (!origin_is_library(L, ar)) return true;
    if (innermost < 0) innermost = level;
  }
  ar->currentline = 0;
  if (innermost >= 0 && lua_getstack(co, innermost, ar)) lua_getinfo(co, "Sl", ar);
  return false;
}

bool name_push_where(lua_State *L, const Go *go) {
  lua_Debug ar;
  bool is_program = name_find_where(L, go, &ar);
  if (!is_program && origin_push(L, go->origin)) {
    const char *place = strstr(lua_tostring(L, -1), " at ");
    lua_pushstring(L, place + 4);
    lua_remove(L, -2);
  } else if (ar.currentline > 0) {
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  } else {
    lua_pushnil(L);
  }
  return is_program;
}
