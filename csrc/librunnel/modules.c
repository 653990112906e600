/* librunnel/modules.c: see librunnel/modules.h. */
#include "librunnel/modules.h"

#include <lauxlib.h>
#include <stdint.h>

/* The loader of a module: (name, where it was found) -> what the module returns; () -> the module's main function.
   Upvalue: the Module. */
static int load_module(lua_State *L) {
  const Module *module = (const Module *)lua_touserdata(L, lua_upvalueindex(1));
  if (luaL_loadbufferx(L, (const char *)module->code, module->size, module->chunk, NULL) != LUA_OK) return lua_error(L);
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
