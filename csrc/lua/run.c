/* lua/run.c: functions for use outside go blocks: run, step, driver, and simulations. */
#include <limits.h>
#include <math.h>

#include "base/wakeup.h"
#include "blocks/driver.h"
#include "blocks/sched.h"
#include "core/sched_wakeup.h"
#include "lua/check.h"
#include "lua/module.h"
#include "port/reader.h"
#include "sim/sim.h"

/* run(f, ...) -> f's results; run(): runs until no go block is ready, no timer is pending and no event can arrive */
static int core_run(lua_State *L) {
  Sched *S = sched_self(L);
  check_dot(L);
  sched_check_outside(L, S, "run");
  if (lua_isnone(L, 1)) {
    (void)sched_run(L, S, NULL);
    return 0;
  }
  check_callable(L, 1, "run");
  return sched_run_function(L, S, lua_gettop(L) - 1, "run");
}

/* How long a step without a maximum runs go blocks, in ns. */
static const int64_t STEP = CLOCK_MS;

/* step(max) -> ms to the next deadline, 0 when more is ready, nil when idle */
static int core_step(lua_State *L) {
  Sched *S = sched_self(L);
  check_dot(L);
  if (S->running && !S->current && !S->inside) {
    /* A callback of the driver: the scheduler runs the go blocks when it returns. */
    lua_pushnumber(L, (lua_Number)HUGE_VAL);
    return 1;
  }
  sched_check_outside(L, S, "step");
  lua_Integer max = LUA_MAXINTEGER;
  bool is_limited = !lua_isnoneornil(L, 1);
  if (is_limited) {
    int is_int;
    max = lua_tointegerx(L, 1, &is_int);
    if (!is_int || max < 0) {
      return luaL_error(L, "step: a number of go blocks expected, got %s", luaL_tolstring(L, 1, NULL));
    }
  }
  int64_t ns = sched_step(L, S, max, is_limited ? INT64_MAX : STEP);
  if (ns < 0) lua_pushnil(L);
  else if (ns == INT64_MAX) lua_pushnumber(L, (lua_Number)HUGE_VAL);
  else check_push_ms(L, ns);
  return 1;
}

/* driver(d or nil) -> the previous one */
static int core_driver(lua_State *L) {
  Sched *S = sched_self(L);
  /* A go block may call it: no code waits in the driver while a go block runs. */
  if (!S->current || S->inside) sched_check_outside(L, S, "driver");
  check_dot(L);
  lua_settop(L, 1);
  if (!lua_isnil(L, 1)) {
    static const char *const methods[] = {"wait", "alive"};
    for (int i = 0; i < 2; i++) {
      if (lua_type(L, 1) != LUA_TTABLE && lua_type(L, 1) != LUA_TUSERDATA) {
        return luaL_error(L, "driver: an object with the methods wait and alive expected, got %s", luaL_typename(L, 1));
      }
      if (lua_getfield(L, 1, methods[i]) == LUA_TNIL) return luaL_error(L, "driver: it has no method %s", methods[i]);
      lua_pop(L, 1);
    }
  }
  S->wakeup_is_watched = false;
  lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_DRIVER);
  return 1;
}

/* The file descriptor at index `at`. */
static int check_fd(lua_State *L, int at) {
  lua_Integer fd = luaL_checkinteger(L, at);
  if (fd < 0 || fd > INT_MAX) return luaL_error(L, "wait_readable: a file descriptor expected");
  return (int)fd;
}

/* wait_readable(fd, ms or nil, another fd or nil) -> whether a descriptor may be readable; for drivers (driver.h) */
static int core_wait_readable(lua_State *L) {
  int fd = check_fd(L, 1), other = lua_isnoneornil(L, 3) ? -1 : check_fd(L, 3);
  int64_t ns = lua_isnoneornil(L, 2) ? -1 : check_ms(L, 2, "wait_readable");
  lua_pushboolean(L, driver_wait_readable(L, sched_self(L), fd, other, ns));
  return 1;
}

/* wakeup_fd() -> a descriptor that is readable when another thread has completed work for the scheduler; for hosts that
   poll between two steps. */
static int core_wakeup_fd(lua_State *L) {
  const Sched *S = sched_self(L);
  Wakeup *wakeup = sched_wakeup(L, sched_self(L));
  if (!wakeup) return luaL_error(L, "not enough memory");
  lua_pushinteger(L, readers_lasting_fd(wakeup));
  if (S->world.ready.first && !S->running) wakeup_signal(wakeup); /* the host may poll it before it steps */
  return 1;
}

int module_simulate(lua_State *L) {
  Sched *S = sched_self(L);
  sched_check_outside(L, S, "sim.run");
  SimOptions options = {
      .seed = (uint64_t)luaL_checkinteger(L, 1), .shuffle = lua_toboolean(L, 2), .leaks = lua_toboolean(L, 3)};
  check_callable(L, 4, "sim.run");
  int64_t elapsed;
  bool ok = sim_run(L, S, 4, &options, &elapsed);
  lua_pushboolean(L, ok);
  lua_replace(L, 2);
  check_push_ms(L, elapsed);
  lua_replace(L, 3);
  return lua_gettop(L) - 1;
}

void lua_run_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"run", core_run},
      {"step", core_step},
      {"driver", core_driver},
      {"wait_readable", core_wait_readable},
      {"wakeup_fd", core_wakeup_fd},
      {NULL, NULL},
  };
  module_register(L, functions);
}
