/* lua/run.c: running the scheduler from the outside: run, step, the driver, and simulations. */
#include <limits.h>
#include <math.h>

#include "core/closing.h"
#include "core/driver.h"
#include "core/go.h"
#include "core/inspect.h"
#include "core/unhandled.h"
#include "lua/face.h"

/* Protected: () raises the deadlock of a simulation. */
static int raise_deadlock(lua_State *L) {
  lua_pushnil(L); /* no other text for what waits */
  return inspect_raise_deadlock(L, "sim.run");
}

/* Ends the wait of a simulation's root, for which nothing can ever come, with that as its error, as the main program's
   wait ends outside a simulation. False when it does not wait. `at`: its userdata. */
static bool tell_deadlock(lua_State *L, Sched *S, Go *root, int at) {
  if (root->alt.state != ALT_PARKED || !root->alt.count) return false;
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, raise_deadlock, 1);
  (void)lua_pcall(L, 0, 0, 0);
  bool told = go_cancel(L, S, root, at, lua_gettop(L));
  lua_pop(L, 1);
  return told;
}

/* Runs the function with `nargs` arguments on top of L as a go block until it has ended. Replaces them by its results
   and returns how many they are, or raises its error. */
static int run_root(lua_State *L, Sched *S, int nargs, const char *what) {
  int base = lua_gettop(L) - nargs - 1;
  Go *go = go_spawn(L, S, nargs);
  lua_State *co = go->alt.co;
  lua_getiuservalue(L, base + 1, CHAN_VALUES); /* holds the coroutine, on which the results will be */
  bool ended = sched_run(L, S, go);
  while (!ended && S->world.clock.is_virtual && tell_deadlock(L, S, go, base + 1)) ended = sched_run(L, S, go);
  if (!ended) {
    lua_pushnil(L);
    return inspect_raise_deadlock(L, what);
  }
  if (go->alt.flags & ALT_RAISE) {
    lua_xmove(S->outside.co, L, 1);
    return lua_error(L);
  }
  int n = lua_gettop(co) - 1; /* below them is the guard */
  luaL_checkstack(L, n, NULL);
  lua_xmove(co, L, n);
  closing_finish(S, go, co);
  return n;
}

/* run(f, ...) -> f's results; run(): until nothing is ready, timed or alive */
static int core_run(lua_State *L) {
  Sched *S = sched_self(L);
  sched_check_outside(L, S, "run");
  if (lua_isnone(L, 1)) {
    sched_run(L, S, NULL);
    return 0;
  }
  face_check_callable(L, 1, "run");
  return run_root(L, S, lua_gettop(L) - 1, "run");
}

/* For how long a step without a maximum runs go blocks, in ns. */
static const int64_t STEP = CLOCK_MS;

/* step(max) -> ms to the next deadline, 0 when more is ready, nil when idle */
static int core_step(lua_State *L) {
  Sched *S = sched_self(L);
  if (S->running && !S->current && !S->inside) {
    /* A callback of the driver's, in a loop that runs go blocks with step: the scheduler does that now. */
    lua_pushnumber(L, (lua_Number)HUGE_VAL);
    return 1;
  }
  sched_check_outside(L, S, "step");
  lua_Integer max = LUA_MAXINTEGER;
  bool is_limited = !lua_isnoneornil(L, 1);
  if (is_limited) {
    int is_int;
    max = lua_tointegerx(L, 1, &is_int);
    if (!is_int || max < 0) return luaL_error(L, "step: a number of go blocks expected, got %s", luaL_tolstring(L, 1, NULL));
  }
  int64_t ns = sched_step(L, S, max, is_limited ? INT64_MAX : STEP);
  if (ns < 0) lua_pushnil(L);
  else if (ns == INT64_MAX) lua_pushnumber(L, (lua_Number)HUGE_VAL);
  else face_push_ms(L, ns);
  return 1;
}

/* driver(d or nil) -> the previous one */
static int core_driver(lua_State *L) {
  Sched *S = sched_self(L);
  if (!S->current || S->inside) sched_check_outside(L, S, "driver"); /* while a go block runs, nobody waits in the driver */
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
  if (S->port_hook) S->port_hook->is_watched = false;
  lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_DRIVER);
  return 1;
}

/* wait_readable(fd, ms or nil) -> whether it has waited; for drivers */
static int core_wait_readable(lua_State *L) {
  lua_Integer fd = luaL_checkinteger(L, 1);
  if (fd < 0 || fd > INT_MAX) return luaL_error(L, "wait_readable: a file descriptor expected");
  int64_t ns = lua_isnoneornil(L, 2) ? -1 : face_check_ms(L, 2, "wait_readable");
  lua_pushboolean(L, driver_wait_readable(L, sched_self(L), (int)fd, ns));
  return 1;
}

/* ---- simulations ---- */

/* Runs the root of a simulation: (f, ...). Makes room for what face_simulate pushes above the results, where it is too
   late to raise. */
static int simulate(lua_State *L) {
  int n = run_root(L, sched_self(L), lua_gettop(L) - 1, "sim.run");
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  return n;
}

int face_simulate(lua_State *L) {
  Sched *S = sched_self(L);
  sched_check_outside(L, S, "sim.run");
  lua_Integer seed = luaL_checkinteger(L, 1);
  bool shuffle = lua_toboolean(L, 2);
  face_check_callable(L, 3, "sim.run");
  int nargs = lua_gettop(L) - 3;
  /* A world of its own: what was ready or timed outside waits until it is over. What is kept is fetched last: to allocate may run
     finalizers, which may replace it. */
  static const int kept[] = {SCHED_HEAP, SCHED_TIMEOUTS, SCHED_UNHANDLED}; /* at 3, 4, 5 */
  lua_newtable(L);
  lua_newtable(L);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, simulate, 1);
  lua_rotate(L, 3, 3);
  for (int i = 0; i < 3; i++) lua_getiuservalue(L, SCHED_SELF, kept[i]);
  lua_rotate(L, 3, 3); /* seed, shuffle, heap, timeouts, unhandled, new timeouts, new unhandled, simulate, f, ... */
  World outer = S->world;
  S->world = (World){
      .outer = &outer, .first_id = S->next_id, .clock = {.is_virtual = true}, .stride = 1, .left = 1, .shuffle = shuffle,
      .unhandled_first = 1};
  sched_seed(&S->world, (uint64_t)seed);
  for (int i = 1; i < 3; i++) {
    lua_pushvalue(L, 5 + i);
    lua_setiuservalue(L, SCHED_SELF, kept[i]);
  }
  int status = lua_pcall(L, nargs + 1, LUA_MULTRET, 0);
  (void)lua_checkstack(L, LUA_MINSTACK); /* there is room, but Lua does not count on it until it is asked for */
  int64_t elapsed = S->world.clock.virtual_ns;
  unhandled_report(L, S, INT64_MAX);
  sched_end_world(L, S);
  for (int i = 0; i < 3; i++) {
    lua_pushvalue(L, 3 + i);
    lua_setiuservalue(L, SCHED_SELF, kept[i]);
  }
  lua_pushboolean(L, status == LUA_OK);
  lua_replace(L, 6);
  face_push_ms(L, elapsed);
  lua_replace(L, 7);
  return lua_gettop(L) - 5;
}

void lua_run_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"run", core_run},
      {"step", core_step},
      {"driver", core_driver},
      {"wait_readable", core_wait_readable},
      {NULL, NULL},
  };
  face_register(L, functions);
}
