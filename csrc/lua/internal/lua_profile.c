/* lua_profile.c: core.internal.profile, for lua/runnel/rn/profile.lua. */
#include "profile/profile.h"

#include "lua/module.h"

/* start(namers): see profile_start. */
static int lua_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  profile_start(L, sched_self(L), 1);
  return 0;
}

/* stop() -> see profile_stop */
static int lua_stop(lua_State *L) {
  profile_stop(L, sched_self(L));
  return 1;
}

/* passed() -> ns since the profile has begun; nil if there is none */
static int lua_passed(lua_State *L) {
  int64_t ns = profile_passed(sched_self(L));
  if (ns < 0) return 0;
  lua_pushinteger(L, ns);
  return 1;
}

void lua_profile_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", lua_start}, {"stop", lua_stop}, {"passed", lua_passed}, {NULL, NULL}};
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "profile");
}
