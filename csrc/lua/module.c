/* lua/module.c: see lua/module.h. */
#include "lua/module.h"

void module_register(lua_State *L, const luaL_Reg *functions) {
  lua_pushvalue(L, SCHED_SELF);
  luaL_setfuncs(L, functions, 1);
}

bool module_push_sched(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &chan_tag) == LUA_TUSERDATA) return true;
  lua_pop(L, 1);
  return false;
}

bool module_is_ours(lua_State *L) {
  bool is_open = lua_getfield(L, LUA_REGISTRYINDEX, MODULE_KEY) == LUA_TTABLE;
  bool has_sched = module_push_sched(L);
  lua_pop(L, has_sched ? 2 : 1);
  return has_sched || !is_open;
}
