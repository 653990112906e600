/* oom: runs scenarios in which each allocation fails in turn.

     oom [--long SEEDS] SCENARIO...

   A scenario is a Lua file that gets the table `t` of tests/oom_support.lua, sets up, and returns two functions. The
   first, the attempt, runs while allocations fail; the second, the check, examines the outcome when there is memory
   again. A scenario that gets a value from t.variant(a, b, ...) runs once with each of them.
   Each attempt has a state of its own. In it the k-th allocation of the attempt fails, for k = 1, 2, 3 and so on, until
   the attempt ends without a failure. There are two modes:
     once   only that allocation fails, in Lua's second attempt after a full collection, too;
     all    that allocation fails, and all that follow until the end of the attempt;
   and in the long form a third, with SEEDS different seeds:
     some   each allocation fails with a probability of one in k, for k up to the number of allocations.
   All of this is done with the usual collector, with a restless one, which never pauses, and with the generational one.
   For the latter two, the short form leaves out the mode "all" and some values of k; for the first, some in that mode.

   Memory that the core takes from malloc, for shared channels and threads, fails likewise. A scenario that calls
   t.fail_in_threads() has the failures in the states of the threads that it starts, one at a time, and in what these
   take from malloc; not in its own.

   After each attempt come the scenario's check, the invariants of the scheduler, some ordinary work in the same state,
   full collections, and closing the state, which must free all memory. */
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "invariants.h"
#include "memory.h"

int luaopen_runnel_core(lua_State *L);

/* The collector's modes. */
static const char *const COLLECTORS[] = {"usual", "restless", "generational"};
enum { USUAL, RESTLESS, GENERATIONAL, NCOLLECTORS };

static int variant, variants; /* the number of the scenario's variant, from 0, and how many it has */

/* The memory of the state of the attempt's thread: there is one thread at a time. */
static Memory of_thread;

/* The linker's --wrap=NAME has these names. NOLINTNEXTLINE(bugprone-reserved-identifier) */
lua_State *__wrap_luaL_newstate(void);

/* In a thread: a state whose allocations are counted, and may fail. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
lua_State *__wrap_luaL_newstate(void) {
  memory_here = &of_thread;
  return lua_newstate(memory_allocate, memory_here);
}

/* ---- what scenarios use ---- */

/* refused() -> how many allocations have failed */
static int t_refused(lua_State *L) {
  lua_pushinteger(L, memory_of(L)->refused + of_thread.refused);
  return 1;
}

/* fail_in_threads(): see above. To be called before the attempt. */
static int t_fail_in_threads(lua_State *L) {
  Memory *m = memory_of(L);
  m->is_spared = true;
  of_thread = (Memory){.armed = true, .first = m->first, .count = m->count, .odds = m->odds, .random = m->random};
  return 0;
}

/* arm(on) -> whether it was on: makes allocations fail, or not */
static int t_arm(lua_State *L) {
  Memory *m = memory_of(L);
  lua_pushboolean(L, m->armed);
  m->armed = lua_toboolean(L, 1);
  return 1;
}

/* captured() -> what has been written to stderr */
static int t_captured(lua_State *L) {
  lua_pushstring(L, memory_captured());
  return 1;
}

/* The part of t_open that runs protected in the new state. */
static int open_core(lua_State *L) {
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  return 0;
}

/* variant(...) -> one of its arguments: the scenario runs once with each. */
static int t_variant(lua_State *L) {
  variants = lua_gettop(L);
  luaL_argcheck(L, variant < variants, 1, "each attempt must have as many variants");
  lua_pushvalue(L, variant + 1);
  return 1;
}

/* open(): makes a state, loads the core into it, and closes it. */
static int t_open(lua_State *L) {
  lua_State *fresh = lua_newstate(memory_allocate, memory_of(L));
  if (!fresh) return luaL_error(L, "not enough memory");
  lua_pushcfunction(fresh, open_core);
  int status = lua_pcall(fresh, 0, 0, 0);
  lua_close(fresh);
  return status == LUA_OK ? 0 : luaL_error(L, "not enough memory");
}

/* ---- one attempt ---- */

static int with_traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

/* Calls the function on the stack, which must not fail. */
static void must_call(lua_State *L, int nargs, int nresults) {
  int handler = lua_gettop(L) - nargs;
  lua_pushcfunction(L, with_traceback);
  lua_insert(L, handler);
  memory_must(L, lua_pcall(L, nargs, nresults, handler));
  lua_remove(L, handler);
}

/* A state with the libraries, runnel, and the table t, which is on its stack. It does not collect yet. */
static lua_State *open_state(Memory *m) {
  static const luaL_Reg modules[] = {{"runnel.core", luaopen_runnel_core}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"refused", t_refused},
                                       {"fail_in_threads", t_fail_in_threads},
                                       {"arm", t_arm},
                                       {"captured", t_captured},
                                       {"invariants", invariants_check},
                                       {"variant", t_variant},
                                       {"open", t_open},
                                       {NULL, NULL}};
  lua_State *L = memory_open(m, modules);
  lua_gc(L, LUA_GCSTOP);
  memory_must(L, memory_load(L, "tests/oom_support.lua"));
  luaL_newlib(L, functions);
  must_call(L, 1, 1);
  return L;
}

/* Sets how the state collects. */
static void start_collector(lua_State *L, int collector) {
  if (collector == RESTLESS) lua_gc(L, LUA_GCINC, 1, 1000, 0);
  else if (collector == GENERATIONAL) lua_gc(L, LUA_GCGEN, 0, 0);
  lua_gc(L, LUA_GCRESTART);
}

/* A scenario, and how it runs. */
typedef struct Scenario {
  const char *file;
  int collector;
  Memory memory;
  uint32_t most; /* allocations of an attempt, so far */
  uint32_t far;  /* see memory_each */
  uint32_t seed; /* of the random numbers */
  bool is_long;
} Scenario;

/* Runs a scenario once. */
static void attempt(void *data) {
  Scenario *s = (Scenario *)data;
  Memory *m = &s->memory;
  of_thread = (Memory){0};
  memory_now(m, 0, "%s, variant %d, collector %s, seed %u", s->file, variant + 1, COLLECTORS[s->collector],
             (unsigned)s->seed);
  lua_State *L = open_state(m);
  memory_must(L, memory_load(L, s->file));
  lua_pushvalue(L, 1);
  must_call(L, 1, 3); /* t, the attempt, the check, whether it reports errors in any case */
  memory_capture();
  start_collector(L, s->collector);
  lua_pushvalue(L, 2);
  m->armed = true;
  memory_here = m;
  int status = lua_pcall(L, 0, 0, 0);
  memory_here = NULL;
  m->armed = false;
  start_collector(L, USUAL);
  if (s->collector != USUAL) lua_gc(L, LUA_GCINC, 200, 100, 0);
  uint32_t asked = m->is_spared ? of_thread.asked : m->asked;
  if (asked > s->most) s->most = asked;
  if (m->is_spared && !s->is_long) s->far = 32;
  if (status == LUA_OK) lua_pushnil(L);

  /* Calls checked(check, ok, err, reports). */
  lua_getfield(L, 1, "checked");
  lua_pushvalue(L, 3);
  lua_pushboolean(L, status == LUA_OK);
  lua_pushvalue(L, 5);
  lua_pushvalue(L, 4);
  must_call(L, 4, 0);
  memory_close(L);
  if (of_thread.used) memory_die("the state of a thread left %zu bytes", of_thread.used);
  m->refused += of_thread.refused;
  memory_release();
}

/* Runs a variant of a scenario with each allocation failing in turn. Returns the number of attempts. */
static uint32_t run_variant(const char *file, bool is_long, uint32_t seeds) {
  uint32_t attempts = 0;
  for (int collector = 0; collector < NCOLLECTORS; collector++) {
    /* Every k; in the short form, with the other collectors, in threads, which open a whole state, and in the mode "all",
       fewer and fewer of the large ones. */
    bool is_whole = collector == USUAL || is_long;
    Scenario s = {.file = file, .collector = collector, .is_long = is_long, .far = is_whole ? UINT32_MAX : 32};
    attempts += memory_each(&s.memory, 1, &s.far, MEMORY_MOST, attempt, &s);
    if (!is_long && s.far > 128) s.far = 128;
    if (is_whole) attempts += memory_each(&s.memory, MEMORY_ALL, &s.far, MEMORY_MOST, attempt, &s);
    for (s.seed = 1; s.seed <= seeds; s.seed++) {
      for (uint32_t k = 2; k <= s.most; k += 1 + k / 4, attempts++) {
        s.memory = (Memory){.odds = k, .random = (uint64_t)s.seed * UINT64_C(0x9E3779B97F4A7C15)};
        attempt(&s);
      }
    }
  }
  return attempts;
}

/* Runs all variants of a scenario. */
static uint32_t run(const char *file, bool is_long, uint32_t seeds) {
  uint32_t attempts = 0;
  variants = 1;
  for (variant = 0; variant < variants; variant++) attempts += run_variant(file, is_long, seeds);
  return attempts;
}

int main(int argc, char **argv) {
  bool is_long = argc > 2 && strcmp(argv[1], "--long") == 0;
  uint32_t seeds = is_long ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
  for (int i = is_long ? 3 : 1; i < argc; i++) {
    uint32_t attempts = run(argv[i], is_long, seeds);
    printf("%s: %u attempts\n", argv[i], (unsigned)attempts);
    (void)fflush(stdout);
  }
  return EXIT_SUCCESS;
}
