/* beside.c: see beside.h. */
#include "host/beside.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Where these modules are as seen from the executable's directory: in the build tree, and below the prefix. */
#define PLACES "%s../?.so;%s../lib/lua/5.4/?.so"

/* Pushes the executable's directory, with a slash at its end, and returns true; or pushes nothing. */
static bool push_directory(lua_State *L) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path); /* only Linux has it */
  while (n > 0 && path[n - 1] != '/') n--;
  if (n <= 0) return false;
  lua_pushlstring(L, path, (size_t)n);
  return true;
}

/* The searcher; upvalue: the path. (name) -> loader, file | why not | nil */
static int search(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (strncmp(name, "runnel.", 7) != 0) return 0;
  lua_settop(L, 1);
  lua_getglobal(L, "package");
  lua_getfield(L, 2, "searchpath");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 2, 2);
  if (lua_isnil(L, 3)) return 1; /* on top: the files that are not there */
  lua_settop(L, 3);
  lua_getfield(L, 2, "loadlib");
  lua_pushvalue(L, 3);
  lua_pushfstring(L, "luaopen_%s", luaL_gsub(L, name, ".", "_"));
  lua_remove(L, -2);
  lua_call(L, 2, 2);
  if (lua_isnil(L, 4)) {
    const char *file = lua_tostring(L, 3), *why = lua_tostring(L, 5);
    return luaL_error(L, "error loading module '%s' from '%s': %s", name, file, why);
  }
  lua_settop(L, 4);
  lua_insert(L, 3);
  return 2; /* the loader, the file */
}

void beside_add_searcher(lua_State *L) {
  int top = lua_gettop(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  if (push_directory(L)) {
    const char *directory = lua_tostring(L, -1);
    lua_pushfstring(L, PLACES, directory, directory);
    lua_pushcclosure(L, search, 1);
    lua_rawseti(L, top + 2, (lua_Integer)lua_rawlen(L, top + 2) + 1);
  }
  lua_settop(L, top);
}
