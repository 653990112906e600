/* watch.c: core.internal's functions for the monitor (lua/runnel/monitor.lua) and for rn.metrics
   (lua/runnel/rn/metrics.lua). */
#include "tracing/watch.h"

#include <lauxlib.h>

#include "lua/check.h"
#include "lua/module.h"
#include "lua/ps.h"
#include "tracing/snapshot.h"
#include "tracing/trace_list.h"

/* Tells the watch the names of the existing labels. Allocates nothing of Lua's. */
static void add_names(lua_State *L, Sched *S) {
  for (uint32_t label = TRACE_FIRST; S->tracer && label < S->tracer->nlabels; label++) {
    trace_push_label(L, S, (uint16_t)label);
    const char *name = lua_tostring(L, -1);
    if (name) watch_name(S->watch, (uint16_t)label, name);
    lua_pop(L, 1);
  }
}

/* watch(f or nil) -> the Watch, a userdata: lets another thread ask the loop to call f(), which must not wait. Nil ends
   that. */
static int internal_watch(lua_State *L) {
  Sched *S = sched_self(L);
  lua_settop(L, 1);
  if (lua_isnil(L, 1)) {
    watch_end(L, S);
    return 0;
  }
  check_callable(L, 1, "watch");
  watch_begin(L, S, 1);
  add_names(L, S);
  return 1;
}

/* snapshot(light userdata) -> whether the Snapshot is complete: fills the next part of it. */
static int internal_snapshot(lua_State *L) {
  luaL_checktype(L, 1, LUA_TLIGHTUSERDATA);
  lua_pushboolean(L, snapshot_fill(L, sched_self(L), (Snapshot *)lua_touserdata(L, 1)));
  return 1;
}

/* find_go(id) -> the result channel of the go block with this id, or nil */
static int internal_find_go(lua_State *L) {
  return snapshot_push_go(L, sched_self(L), (uint64_t)luaL_checkinteger(L, 1)) ? 1 : 0;
}

/* find_chan(id) -> the channel with this id, or nil */
static int internal_find_chan(lua_State *L) {
  return snapshot_push_chan(L, sched_self(L), (uint64_t)luaL_checkinteger(L, 1)) ? 1 : 0;
}

/* peek(ch, max) -> a list of the oldest values in the buffer, and then of those of waiting puts */
static int internal_peek(lua_State *L) {
  Chan *ch = check_looked(L, 1, "peek", "peek(ch, max)", LOOK_CHANNEL);
  snapshot_push_values(L, ch, 1, luaL_checkinteger(L, 2));
  return 1;
}

/* measure(is_on): begins or ends to measure the loop (watch_measure). */
static int internal_measure(lua_State *L) {
  watch_measure(L, sched_self(L), lua_toboolean(L, 1));
  return 0;
}

/* measured() -> numbers: how many errors were reported, and, if the loop is measured, for how many ms it has waited, how
   many its longest turn since the last call took, and for how many the thread was blocked elsewhere */
static int internal_measured(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_pushinteger(L, (lua_Integer)S->reported);
  bool is_on = S->watch && S->watch->is_measured;
  lua_pushnumber(L, is_on ? (lua_Number)atomic_load(&S->watch->waited) / (lua_Number)CLOCK_MS : 0);
  lua_pushnumber(L, is_on ? (lua_Number)watch_longest(S->watch) / (lua_Number)CLOCK_MS : 0);
  lua_pushnumber(L, is_on ? (lua_Number)watch_blocked(S->watch) / (lua_Number)CLOCK_MS : 0);
  return 4;
}

void lua_watch_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"find_chan", internal_find_chan},
      {"find_go", internal_find_go},
      {"measure", internal_measure},
      {"measured", internal_measured},
      {"peek", internal_peek},
      {"snapshot", internal_snapshot},
      {"states", ps_count},
      {"watch", internal_watch},
      {NULL, NULL},
  };
  module_register(L, functions);
}
