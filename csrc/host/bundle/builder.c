/* builder.c: see builder.h. */
#include "host/bundle/builder.h"

#include <errno.h>
#include <glob.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "host/bundle/bundle.h"

/* mark() -> the mark of this executable's record */
static int builder_mark(lua_State *L) {
  BundleRecord r = bundle_record();
  lua_pushlstring(L, r.mark, sizeof r.mark);
  return 1;
}

/* sum(bytes) -> the checksum of a bundle */
static int builder_sum(lua_State *L) {
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  lua_pushinteger(L, (lua_Integer)bundle_sum((const unsigned char *)bytes, size));
  return 1;
}

/* make_executable(path) -> true | nil, why not: all users who can read the file can then also run it */
static int builder_make_executable(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  struct stat file;
  if (stat(path, &file) != 0) return luaL_fileresult(L, 0, path);
  mode_t readers = file.st_mode & (S_IRUSR | S_IRGRP | S_IROTH);
  return luaL_fileresult(L, chmod(path, (file.st_mode & 07777) | readers >> 2) == 0, path);
}

/* kind(path) -> "file", "folder" or "other"; or nil, why not */
static int builder_kind(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  struct stat file;
  if (stat(path, &file) != 0) return luaL_fileresult(L, 0, path);
  lua_pushstring(L, S_ISREG(file.st_mode) ? "file" : S_ISDIR(file.st_mode) ? "folder" : "other");
  return 1;
}

/* is_same(path, other) -> whether both paths lead to the same file */
static int builder_is_same(lua_State *L) {
  struct stat file, other;
  bool is_same = stat(luaL_checkstring(L, 1), &file) == 0 && stat(luaL_checkstring(L, 2), &other) == 0 &&
                 file.st_dev == other.st_dev && file.st_ino == other.st_ino;
  lua_pushboolean(L, is_same);
  return 1;
}

/* Protected: (a table, a glob_t) fills the table with the paths. */
static int list_paths(lua_State *L) {
  const glob_t *found = (const glob_t *)lua_touserdata(L, 2);
  lua_settop(L, 1);
  for (size_t i = 0; i < found->gl_pathc; i++) {
    lua_pushstring(L, found->gl_pathv[i]);
    lua_rawseti(L, 1, (lua_Integer)i + 1);
  }
  return 1;
}

/* glob(pattern) -> a list of the paths that match, in the order of their names */
static int builder_glob(lua_State *L) {
  const char *pattern = luaL_checkstring(L, 1);
  lua_newtable(L);
  glob_t found;
  memset(&found, 0, sizeof found);
  int failure = glob(pattern, 0, NULL, &found);
  lua_pushcfunction(L, list_paths);
  lua_insert(L, -2);
  lua_pushlightuserdata(L, &found);
  int status = lua_pcall(L, 2, 1, 0);
  globfree(&found);
  if (status != LUA_OK) return lua_error(L);
  if (failure && failure != GLOB_NOMATCH) return luaL_error(L, "%s cannot be searched", pattern);
  return 1;
}

int builder_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"glob", builder_glob}, {"is_same", builder_is_same},
      {"kind", builder_kind}, {"make_executable", builder_make_executable},
      {"mark", builder_mark}, {"sum", builder_sum},
      {NULL, NULL},
  };
  luaL_newlib(L, functions);
  return 1;
}
