/* origin.c: see origin.h. SCHED_ORIGINS maps numbers to texts and texts to numbers. At LIBRARY it has the prefix of the
   source names of the library's functions. */
#include "errors/origin.h"

#include <string.h>

#include "core/setup.h"

enum { LIBRARY = 0 };

const char *origin_push_library(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ORIGINS);
  lua_rawgeti(L, -1, LIBRARY);
  lua_replace(L, -2);
  return lua_tostring(L, -1);
}

/* Whether a source is in the library's folder, or is runnel.lua, which is beside the folder runnel. */
static bool is_in(const char *source, const char *folder) {
  size_t length = folder ? strlen(folder) : 0;
  if (length == 0 || strncmp(source, folder, length - 1) != 0) return false;
  return source[length - 1] == folder[length - 1] || strcmp(source + length - 1, ".lua") == 0;
}

bool origin_is_library(lua_State *L, const lua_Debug *ar) {
  bool is = is_in(ar->source, origin_push_library(L));
  lua_pop(L, 1);
  return is;
}

bool origin_push(lua_State *L, uint32_t origin) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ORIGINS);
  bool is_there = origin && lua_rawgeti(L, -1, origin) == LUA_TSTRING;
  if (is_there) lua_remove(L, -2);
  else lua_settop(L, lua_gettop(L) - (origin ? 2 : 1));
  return is_there;
}

/* Fills in the current line of the innermost Lua function outside the library; false if there is none. */
static bool find_caller(lua_State *L, lua_Debug *ar) {
  const char *prefix = origin_push_library(L);
  bool found = false;
  for (int level = 1; !found && lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "S", ar);
    found = ar->what[0] != 'C' && !is_in(ar->source, prefix);
  }
  lua_pop(L, 1);
  if (found) lua_getinfo(L, "l", ar);
  return found;
}

/* Adds the text at index `text` to the origins, as number `n`. */
static void add_text(lua_State *L, int text, int origins, lua_Integer n) {
  lua_pushvalue(L, text);
  lua_rawseti(L, origins, n);
  lua_pushvalue(L, text);
  lua_pushinteger(L, n);
  lua_rawset(L, origins);
}

/* The number of the text "WHAT at FILE:LINE": an existing one, or a new one. May raise. */
static uint32_t number_of(lua_State *L, const char *what, const lua_Debug *ar) {
  int text = lua_gettop(L) + 1, origins = text + 1;
  lua_pushfstring(L, "%s at %s:%d", what, ar->short_src, ar->currentline);
  lua_getiuservalue(L, SCHED_SELF, SCHED_ORIGINS);
  lua_pushvalue(L, text);
  lua_Integer n;
  if (lua_rawget(L, origins) == LUA_TNUMBER) {
    n = lua_tointeger(L, -1);
  } else {
    n = (lua_Integer)lua_rawlen(L, origins) + 1;
    if (n > ORIGIN_MAX) n = 0; /* uncovered: only after a million different lines */
    else add_text(L, text, origins, n);
  }
  lua_settop(L, text - 1);
  return (uint32_t)n;
}

uint32_t origin_of_caller(lua_State *L, const char *what) {
  lua_Debug ar;
  return find_caller(L, &ar) ? number_of(L, what, &ar) : 0;
}

void origin_set(lua_State *L, int at, const char *what) {
  Go *go = chan_to_go((Chan *)lua_touserdata(L, at));
  if (!go || !go->slot) return;
  uint32_t number = origin_of_caller(L, what);
  if (number && go->slot) go->origin = number & ORIGIN_MAX; /* a finalizer may have ended the go block */
}

void origin_set_library(lua_State *L, const char *name) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return;
  lua_getinfo(L, "S", &ar);
  size_t length = strlen(ar.source), rest = strlen(name);
  if (length < rest || strcmp(ar.source + length - rest, name) != 0) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_ORIGINS);
  lua_pushlstring(L, ar.source, length - rest);
  lua_rawseti(L, -2, LIBRARY);
  lua_pop(L, 1);
}

void origin_open(lua_State *L) { setup_keep_table(L, SCHED_ORIGINS); }
