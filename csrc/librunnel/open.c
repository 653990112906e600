/* librunnel/open.c: runnel_open, which makes the core and the Lua modules known to a state; see runnel.h. */
#include <lauxlib.h>

#include "capi/runnel.h"
#include "librunnel/modules.h"
#include "lua/module.h"
#include "states/interruption.h"

int luaopen_runnel_core(lua_State *L);

/* Its address is the registry key that says that runnel_open has been called. */
static const char opened_key = 0;

/* Protected; its upvalue is the scheduler: () */
static int open_interruption(lua_State *L) {
  (void)interruption_open(L, sched_self(L));
  return 0;
}

/* Protected: (where the code goes) */
static int open_all(lua_State *L) {
  int *code = (int *)lua_touserdata(L, 1);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!module_is_ours(L)) {
    *code = RUNNEL_FOREIGN;
    return 0;
  }
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &opened_key) != LUA_TNIL) return 0;
  modules_preload(L, runnel_modules);
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  if (!module_push_sched(L)) { /* runnel.core was loaded already, by another copy */
    *code = RUNNEL_FOREIGN;
    return 0;
  }
  lua_pushcclosure(L, open_interruption, 1);
  lua_call(L, 0, 0);
  lua_pushboolean(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &opened_key);
  return 0;
}

int runnel_open(lua_State *L) {
  int code = RUNNEL_OK;
  if (!L) return RUNNEL_BAD_ARGUMENT;
  if (!lua_checkstack(L, LUA_MINSTACK)) return RUNNEL_NO_MEMORY;
  lua_pushcfunction(L, open_all);
  lua_pushlightuserdata(L, &code);
  int status = lua_pcall(L, 1, 0, 0);
  if (status == LUA_OK) return code;
  lua_pop(L, 1);
  return status == LUA_ERRMEM ? RUNNEL_NO_MEMORY : RUNNEL_RAISED;
}
