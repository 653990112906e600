/* forgotten.c: warns of a forgotten rn.run(). When an interpreter such as lua5.4 reaches the end of a program that has a
   server, or go blocks that have never run, it closes the state, and nothing of this happens. So a finalizer that runs
   as the state closes writes a warning (lua/runnel/internal/errors/forgotten.lua). A program that has called os.exit
   wanted to end: then there is none. */
#include <lauxlib.h>
#include <lualib.h>

#include "core/go_state.h"
#include "core/setup.h"
#include "errors/origin.h"
#include "lua/module.h"

static const char *const EXITS = "runnel.exits"; /* registry key: true once the program has called os.exit */

/* Replaces os.exit, which is its upvalue. */
static int noted_exit(lua_State *L) {
  lua_pushboolean(L, true);
  lua_setfield(L, LUA_REGISTRYINDEX, EXITS);
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* If the go block has not begun: pushes the file and line of the program's function that it would call. Otherwise, and
   for go blocks of the library, pushes nothing and returns false. */
static bool push_function(lua_State *L, const Go *go) {
  lua_State *co = go->alt.co;
  lua_Debug ar;
  if (!co || lua_status(co) != LUA_OK || lua_getstack(co, 0, &ar) || !lua_checkstack(co, 1)) return false;
  for (int i = 1; i <= lua_gettop(co); i++) {
    if (!lua_isfunction(co, i) || lua_iscfunction(co, i)) continue;
    lua_pushvalue(co, i);
    lua_getinfo(co, ">S", &ar);
    if (origin_is_library(L, &ar)) return false;
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
    return true;
  }
  return false;
}

/* Pushes a list of these texts, for all go blocks that have never run. */
static void push_functions(lua_State *L) {
  const World *w = &sched_self(L)->world;
  lua_newtable(L);
  lua_Integer n = 0;
  for (Link *link = w->ready.first; link; link = list_next(&w->ready, link)) {
    if (push_function(L, sched_go(CONTAINER_OF(link, Alt, own.waiter.link)))) lua_rawseti(L, -2, ++n);
  }
}

/* Writes the warning. Called by lua_pcall, without arguments. */
static int tell(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.internal.errors.forgotten");
  lua_call(L, 1, 1);
  push_functions(L);
  lua_call(L, 1, 0);
  return 0;
}

/* __gc of a userdata that lives as long as the state. It was made before all objects of the program, so Lua finalizes it
   after them: what is left in the run queue then will never run. */
static int at_end(lua_State *L) {
  const Sched *S = sched_self(L);
  if (S->world.clock.is_virtual || lua_getfield(L, LUA_REGISTRYINDEX, EXITS) != LUA_TNIL) return 0;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool has_server = lua_istable(L, -1) && lua_getfield(L, -1, "runnel.http.server") == LUA_TTABLE;
  if (!S->world.ready.first && !has_server) return 0;
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, tell, 1);
  (void)lua_pcall(L, 0, 0, 0);
  return 0;
}

void lua_forgotten_open(lua_State *L) {
  int top = lua_gettop(L);
  lua_newuserdatauv(L, 0, 0);
  setup_push_meta(L, "__gc", at_end);
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &EXITS);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_OSLIBNAME) == LUA_TTABLE && lua_getfield(L, -1, "exit") == LUA_TFUNCTION &&
      lua_iscfunction(L, -1) && !lua_getupvalue(L, -1, 1)) {
    lua_pushcclosure(L, noted_exit, 1);
    lua_setfield(L, -2, "exit");
  }
  lua_settop(L, top);
}
