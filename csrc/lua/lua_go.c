/* lua/lua_go.c: starting and cancelling go blocks, functions for use in them (yield, sleep, now, rename), ps and
   on_error. */
#include "blocks/go.h"
#include "blocks/park.h"
#include "blocks/sched.h"
#include "blocks/timer.h"
#include "capi/hold.h"
#include "core/attr.h"
#include "errors/origin.h"
#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/ps.h"
#include "sim/busy.h"
#include "tracing/trace_list.h"

/* Checks the argument of go that is not a function. Returns the origin of the go block if it is an object of the
   library, such as a pool of threads: the go block would else be named after a line of the library. */
static uint32_t check_go_object(lua_State *L) {
  if (!chan_to(L, 1) && luaL_getmetafield(L, 1, "__call") != LUA_TNIL) {
    lua_Debug ar = {.source = ""};
    if (lua_isfunction(L, -1)) lua_getinfo(L, ">S", &ar);
    else lua_pop(L, 1);
    return origin_is_library(L, &ar) ? origin_of_caller(L, "go") : 0;
  }
  check_no_module(L, 1);
  return (uint32_t)luaL_error(L, "go: a function expected, got %s; to call f(...) in a go block, write rn.go(f, ...)",
                              check_got(L, 1));
}

/* go(f, ...) -> result channel */
static int core_go(lua_State *L) {
  uint32_t origin = LIKELY(lua_isfunction(L, 1)) ? 0 : check_go_object(L);
  Go *go = go_spawn(L, sched_self(L), lua_gettop(L) - 1);
  if (UNLIKELY(origin)) go->origin = origin & ORIGIN_MAX;
  return 1;
}

/* cancel(result, reason) -> whether there was something to cancel. The result of a thread stands for the go block that
   receives the thread's errors. */
static int core_cancel(lua_State *L) {
  const Chan *ch =
      check_looked(L, 1, "cancel", "rn.cancel(result, reason), with the result channel of a go block", LOOK_BLOCK);
  Go *go = api_to_go(L, 1);
  if (!go) {
    attr_push_name(L, ch, 1);
    return luaL_error(L,
                      "cancel: %s is not the result channel of a go block or a thread; to end the operations on it, "
                      "close it",
                      lua_tostring(L, -1));
  }
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushliteral(L, "cancelled");
    lua_replace(L, 2);
  }
  lua_pushboolean(L, go_cancel(L, ch->sched, go, 1, 2));
  return 1;
}

/* yield(): lets the other ready go blocks run; outside a go block, runs those that are ready now. */
static int core_yield(lua_State *L) {
  Sched *S = sched_self(L);
  check_dot(L);
  if (!S->current && !S->running && !S->inside) {
    sched_step(L, S, S->world.nready, INT64_MAX);
    return 0;
  }
  static const Operation yield = {.name = "yield"};
  busy_add(S, BUSY_POLL);
  return park_yield(L, S, &yield, NULL);
}

static int sleep_for_ms(lua_State *L, const Operation *op) {
  Sched *S = sched_self(L);
  int64_t ns = check_ms(L, 1, "sleep"), now = clock_now(&S->world.clock);
  if (ns == 0) busy_add(S, BUSY_POLL);
  timer_reserve(L, S);
  Alt *alt = park_begin(L, S, op);
  timer_sleep(S, alt, clock_after(now, ns));
  return park_wait(L, S, alt, op, NULL);
}

/* sleep(ms) */
static int core_sleep(lua_State *L) {
  static const Operation sleep = {.name = "sleep"};
  return sleep_for_ms(L, &sleep);
}

int module_sleep_at_end(lua_State *L) {
  static const Operation sleep = {.name = "a scope", .cleans_up = true};
  return sleep_for_ms(L, &sleep);
}

/* now() -> ms */
static int core_now(lua_State *L) {
  Sched *S = sched_self(L);
  check_dot(L);
  busy_read(L, S);
  check_push_ms(L, clock_now(&S->world.clock));
  return 1;
}

/* rename(s): names the running go block. */
static int core_rename(lua_State *L) {
  Sched *S = sched_self(L);
  if (lua_type(L, 1) != LUA_TSTRING) return luaL_error(L, "rename: a string expected, got %s", check_got(L, 1));
  if (!S->current) return luaL_error(L, "rename: it was called outside any go block, so there is nothing to name");
  root_push(L, S->current);
  lua_pushvalue(L, 1);
  attr_set(L, lua_gettop(L) - 1, ATTR_GO);
  lua_settop(L, 1);
  trace_renamed(L, S->current);
  return 0;
}

/* ps() -> list of go blocks */
static int core_ps(lua_State *L) {
  check_dot(L);
  return ps_walk(L);
}

/* on_error(f or nil) -> the previous one */
static int core_on_error(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) check_callable(L, 1, "on_error");
  lua_settop(L, 1);
  lua_getiuservalue(L, SCHED_SELF, SCHED_ON_ERROR);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_ON_ERROR);
  return 1;
}

/* reduced(v) -> a reduced value, by which a transducer ends early. */
static int core_reduced(lua_State *L) {
  if (lua_gettop(L) > 1) check_dot(L);
  lua_settop(L, 1);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, 1);
  lua_getiuservalue(L, SCHED_SELF, SCHED_REDUCED);
  lua_setmetatable(L, -2);
  return 1;
}

/* is_reduced(v) -> boolean */
static int core_is_reduced(lua_State *L) {
  if (lua_gettop(L) > 1) check_dot(L);
  bool is = false;
  if (lua_getmetatable(L, 1)) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_REDUCED);
    is = lua_rawequal(L, -1, -2);
  }
  lua_pushboolean(L, is);
  return 1;
}

void lua_go_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"go", core_go},           {"cancel", core_cancel},         {"yield", core_yield}, {"sleep", core_sleep},
      {"now", core_now},         {"rename", core_rename},         {"ps", core_ps},       {"on_error", core_on_error},
      {"reduced", core_reduced}, {"is_reduced", core_is_reduced}, {NULL, NULL},
  };
  module_register(L, functions);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "reduced");
  lua_setfield(L, -2, "__name");
  lua_setiuservalue(L, SCHED_SELF, SCHED_REDUCED);
}
