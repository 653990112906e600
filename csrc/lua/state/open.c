/* open.c: runnel.core, the Lua module of the C core: it opens one scheduler for each lua_State. */
#include "lua/module.h"

#include <stdint.h>
#include <time.h>

#include "base/wakeup.h"
#include "blocks/sched.h"
#include "capi/api.h"
#include "core/setup.h"
#include "errors/origin.h"
#include "errors/unhandled.h"
#include "lua/state/allocator.h"

RUNNEL_API int luaopen_runnel_core(lua_State *L);

/* __gc of a userdata that is made before all others of the core, and so is finalized after them, when the state is
   closed. Lua does not finalize what finalizers make meanwhile: this ends it, and marks what is made only afterwards as
   being closed (sched_wakeup). Tasks that wait are done. */
static int end_state(lua_State *L) {
  static const int parts[] = {SCHED_THREADS, SCHED_SHARING, SCHED_PORTS};
  Sched *S = sched_self(L);
  if (S->tasks) S->run_tasks(S);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    bool is_made = lua_getiuservalue(L, SCHED_SELF, parts[i]) == LUA_TUSERDATA;
    if (is_made && luaL_getmetafield(L, -1, "__gc") != LUA_TNIL) {
      lua_pushvalue(L, -2);
      (void)lua_pcall(L, 1, 0, 0);
    }
    lua_settop(L, 1);
  }
  if (S->wakeup) wakeup_release(S->wakeup);
  S->wakeup = NULL;
  lua_pushnil(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_END);
  return 0;
}

/* Sets up the scheduler, which is its upvalue, and fills the module: (module) -> module */
static int fill(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t seed = (uint64_t)now.tv_nsec * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)L;
  sched_open(L, seed);
  lua_newuserdatauv(L, 0, 0);
  setup_push_meta(L, "__gc", end_state);
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_END);
  lua_chan_open(L);
  lua_buffer_open(L);
  lua_alts_open(L);
  lua_go_open(L);
  lua_run_open(L);
  lua_delayed_open(L);
  lua_lines_open(L);
  lua_internal_open(L);
  lua_getfield(L, -1, "internal");
  lua_thread_open(L, luaopen_runnel_core);
  lua_pop(L, 1);
  unhandled_open(L);
  origin_open(L);
  api_open(L);
  functions_open(L);
  lua_blocking_open(L);
  lua_forgotten_open(L);
  return 1;
}

int luaopen_runnel_core(lua_State *L) {
  luaL_checkversion(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, MODULE_KEY) == LUA_TTABLE) return 1;
  allocator_install(L);
  lua_newuserdatauv(L, sizeof(Sched), SCHED_NUSER);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, fill, 1);
  lua_newtable(L);
  lua_call(L, 1, 1);
  lua_insert(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &chan_tag); /* its address differs in another copy of the core */
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, MODULE_KEY);
  return 1;
}
