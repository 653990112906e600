/* limits.c: see limits.h. */
#include "states/limits.h"

/* Its address is the registry key of the userdata with the Limits. */
static const char limits_key = 0;

/* __gc of that userdata. It is made before the core is opened, and so is finalized after all of that. */
static int end_limits(lua_State *L) {
  Limits *limits = (Limits *)lua_touserdata(L, 1);
  budget_release(limits->budget);
  limits->budget = NULL;
  return 0;
}

void limits_set(lua_State *L, const Limits *limits) {
  Limits *made = (Limits *)lua_newuserdatauv(L, sizeof *made, 0);
  *made = (Limits){.without = limits->without};
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, end_limits);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &limits_key);
  if (limits->budget) made->budget = budget_hold(limits->budget);
}

Limits limits_get(lua_State *L) {
  const Limits *found = NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &limits_key) == LUA_TUSERDATA) found = (const Limits *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return found ? *found : (Limits){0};
}
