/* librunnel/modules.c: see librunnel/modules.h. */
#include "librunnel/modules.h"

#include <lauxlib.h>
#include <stdint.h>

/* Its address is the registry key of the modules' globals; true if they are to have some, and none is loaded yet. */
static const char globals_key = 0;

/* Pushes a copy of the table on top of the stack, which it replaces. */
static void copy_table(lua_State *L) {
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, -3);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_replace(L, -2);
}

/* Makes the modules' globals, and pushes them. */
static void make_globals(lua_State *L) {
  static const char *const libraries[] = {"coroutine", "debug", "math", "string", "table", "utf8"};
  lua_pushglobaltable(L);
  copy_table(L);
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    if (lua_getfield(L, -1, libraries[i]) == LUA_TTABLE) {
      copy_table(L);
      lua_setfield(L, -2, libraries[i]);
    } else {
      lua_pop(L, 1);
    }
  }
  lua_createtable(L, 0, 1);
  lua_pushglobaltable(L);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &globals_key);
}

void modules_seclude(lua_State *L) {
  lua_pushboolean(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &globals_key);
}

/* Gives the main function of a module, on top of the stack, the modules' globals. */
static void set_globals(lua_State *L) {
  int type = lua_rawgetp(L, LUA_REGISTRYINDEX, &globals_key);
  if (type == LUA_TBOOLEAN) {
    lua_pop(L, 1);
    make_globals(L);
  }
  if (type == LUA_TNIL || !lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
}

/* The loader of a module: (name, where it was found) -> what the module returns; () -> the module's main function.
   Upvalue: the Module. */
static int load_module(lua_State *L) {
  const Module *module = (const Module *)lua_touserdata(L, lua_upvalueindex(1));
  if (luaL_loadbufferx(L, (const char *)module->code, module->size, module->chunk, NULL) != LUA_OK) return lua_error(L);
  set_globals(L);
  if (lua_gettop(L) == 1) return 1;
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

void modules_preload_one(lua_State *L, const Module *module) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)module); /* only ever read through a const pointer */
  lua_pushcclosure(L, load_module, 1);
  lua_setfield(L, -2, module->name);
}

void modules_preload(lua_State *L, const Module *modules) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (; modules->name; modules++) modules_preload_one(L, modules);
  lua_pop(L, 1);
}
