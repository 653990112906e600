/* error_text.c: see error_text.h. */
#include "core/error_text.h"

#include <lauxlib.h>
#include <string.h>

enum { MAX_FIELDS = 16 }; /* how many fields of a table are shown */

/* Pushes the next key of the table at index `at` after the key at index `last` (nil: the first), in alphabetical order,
   among the strings whose values can be shown; nil when there is none. */
static void push_next_key(lua_State *L, int at, int last) {
  lua_pushnil(L);
  int best = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    int type = lua_type(L, -1);
    if (lua_type(L, -2) != LUA_TSTRING || (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN)) continue;
    if (!lua_isnil(L, last) && !lua_compare(L, last, -2, LUA_OPLT)) continue;
    if (!lua_isnil(L, best) && !lua_compare(L, -2, best, LUA_OPLT)) continue;
    lua_pushvalue(L, -2);
    lua_replace(L, best);
  }
}

/* Pushes the text of an error that is a table: its message if there is one, and its other fields; false without any. */
static bool push_table_text(lua_State *L, int at) {
  luaL_Buffer b;
  lua_getfield(L, at, "message");
  bool has_message = lua_type(L, -1) == LUA_TSTRING;
  lua_pushnil(L); /* the last key */
  int message = lua_gettop(L) - 1, key = message + 1;
  luaL_buffinit(L, &b);
  if (has_message) {
    lua_pushvalue(L, message);
    luaL_addvalue(&b);
  }
  bool is_first = true;
  for (int n = 0; n < MAX_FIELDS; n++) {
    push_next_key(L, at, key); /* what lies on the stack of a buffer must be left there */
    lua_replace(L, key);
    if (lua_isnil(L, key)) break;
    if (has_message && strcmp(lua_tostring(L, key), "message") == 0) continue;
    luaL_addstring(&b, is_first ? (has_message ? " (" : "{ ") : ", ");
    is_first = false;
    lua_pushvalue(L, key);
    luaL_addvalue(&b);
    luaL_addstring(&b, " = ");
    lua_pushvalue(L, key);
    lua_rawget(L, at);
    luaL_tolstring(L, -1, NULL);
    lua_remove(L, -2);
    luaL_addvalue(&b);
  }
  if (!is_first) luaL_addstring(&b, has_message ? ")" : " }");
  luaL_pushresult(&b);
  lua_replace(L, message);
  lua_settop(L, message);
  if (lua_rawlen(L, message) > 0) return true;
  luaL_tolstring(L, at, NULL);
  lua_replace(L, message);
  return false;
}

bool error_text_push(lua_State *L, int at) {
  if (lua_type(L, at) == LUA_TTABLE && luaL_getmetafield(L, at, "__tostring") == LUA_TNIL) {
    return push_table_text(L, at);
  }
  lua_settop(L, lua_gettop(L) - (lua_type(L, at) == LUA_TTABLE));
  luaL_tolstring(L, at, NULL);
  return true;
}
