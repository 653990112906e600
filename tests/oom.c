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
   For the latter two, the short form leaves out the mode "all" and some values of k.

   Memory that the core takes from malloc, for shared channels and threads, fails likewise. A scenario that calls
   t.fail_in_threads() has the failures in the states of the threads that it starts, one at a time, and in what these
   take from malloc; not in its own.

   After each attempt come the scenario's check, the invariants of the scheduler, some ordinary work in the same state,
   full collections, and closing the state, which must free all memory. Blocks that grow always move, so that the
   address sanitizer finds pointers to their old places. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "invariants.h"

int luaopen_runnel_core(lua_State *L);

/* An attempt with more allocations than this counts as endless. */
enum { MAX_ALLOCATIONS = 200000, MAX_REPORT = 65536 };

typedef enum Mode { ONCE, ALL, SOME } Mode;
static const char *const MODES[] = {"once", "all", "some"};

/* The collector's modes. */
static const char *const COLLECTORS[] = {"usual", "restless", "generational"};
enum { USUAL, RESTLESS, GENERATIONAL, NCOLLECTORS };

/* The memory of one state, and when it fails. */
typedef struct Memory {
  size_t used;               /* bytes in use */
  bool armed;                /* allocations fail: the attempt is running */
  bool in_threads;           /* but those of a thread, which has a Memory of its own */
  Mode mode;                 /* which allocations fail */
  uint32_t k;                /* the k of the mode */
  uint64_t random;           /* state of the random numbers, for SOME */
  uint32_t asked;            /* how many allocations the attempt has made, without Lua's second attempts */
  uint32_t refused;          /* how many of these have failed */
  bool repeating;            /* the last one failed; the next is Lua's second attempt if it has the same */
  const void *block;         /* block */
  size_t old_size, new_size; /* and sizes */
} Memory;

/* What is running now, for reports, also from a signal handler. */
static struct {
  char text[512];
  int real_stderr;       /* the real stderr, which is a file during an attempt */
  int variant, variants; /* the number of the scenario's variant, from 0, and how many it has */
} now = {"", -1, 0, 1};

/* ---- the allocator ---- */

static bool must_fail(Memory *m, const void *block, size_t old_size, size_t new_size) {
  if (m->repeating) {
    m->repeating = false;
    if (m->block == block && m->old_size == old_size && m->new_size == new_size) return true;
  }
  m->asked++;
  bool fails = false;
  switch (m->mode) {
  case ONCE:
    fails = m->asked == m->k;
    break;
  case ALL:
    fails = m->asked >= m->k;
    break;
  case SOME:
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    fails = m->random % m->k == 0;
    break;
  }
  if (!fails) return false;
  m->refused++;
  m->repeating = true;
  m->block = block;
  m->old_size = old_size;
  m->new_size = new_size;
  return true;
}

/* The linker's --wrap=NAME has these names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
lua_State *__real_luaL_newstate(void);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
lua_State *__wrap_luaL_newstate(void);
/* NOLINTEND(bugprone-reserved-identifier) */

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size) {
  Memory *m = (Memory *)ud;
  bool armed = m->armed && !m->in_threads;
  if (!block) old_size = 0; /* it is the type of the object then */
  if (new_size == 0) {
    free(block);
    m->used -= old_size;
    return NULL;
  }
  if (armed && new_size > old_size && must_fail(m, block, old_size, new_size)) return NULL;
  void *moved = __real_malloc(new_size);
  if (!moved) return NULL;
  if (block) {
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    free(block);
  }
  m->used += new_size - old_size;
  return moved;
}

/* ---- malloc, and the states of threads ---- */

/* The memory of the state that this thread runs; NULL before an attempt, and while the allocator itself allocates. */
static _Thread_local Memory *here;

/* That of the state of the attempt's thread: there is one thread at a time. */
static Memory of_thread;

/* Whether an allocation by malloc must fail. */
static bool malloc_fails(void) {
  if (!here || !here->armed || here->in_threads) return false;
  here->repeating = false;
  bool fails = must_fail(here, NULL, 0, 0);
  here->repeating = false; /* there is no second attempt */
  return fails;
}

void *__wrap_malloc(size_t size) { return malloc_fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return malloc_fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *block, size_t size) { return malloc_fails() ? NULL : __real_realloc(block, size); }

/* In a thread: a state whose allocations are counted, and may fail. */
lua_State *__wrap_luaL_newstate(void) {
  here = &of_thread;
  return lua_newstate(allocate, here);
}

/* ---- what is written to stderr during an attempt ---- */

/* Points stderr to a file, emptied. */
static void capture_stderr(void) {
  static FILE *file;
  (void)fflush(stderr);
  if (!file) {
    file = tmpfile();
    now.real_stderr = dup(STDERR_FILENO);
    if (!file || now.real_stderr < 0) abort();
  }
  if (ftruncate(fileno(file), 0) != 0 || dup2(fileno(file), STDERR_FILENO) < 0) abort();
  (void)lseek(STDERR_FILENO, 0, SEEK_SET);
}

/* Returns what has been captured. */
static const char *captured(void) {
  static char text[MAX_REPORT];
  (void)fflush(stderr);
  ssize_t n = pread(STDERR_FILENO, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  return text;
}

static void release_stderr(void) {
  (void)fflush(stderr);
  if (now.real_stderr >= 0) (void)dup2(now.real_stderr, STDERR_FILENO);
}

/* Signal handler: prints in which attempt the crash happened, and what was written to stderr. */
static void on_crash(int number) {
  static char text[4096];
  (void)lseek(STDERR_FILENO, 0, SEEK_SET);
  ssize_t n = read(STDERR_FILENO, text, sizeof text);
  if (now.real_stderr >= 0) (void)dup2(now.real_stderr, STDERR_FILENO);
  if (n > 0) (void)!write(STDERR_FILENO, text, (size_t)n);
  (void)!write(STDERR_FILENO, now.text, strlen(now.text));
  (void)!write(STDERR_FILENO, ": crashed\n", 10);
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

#if defined(__SANITIZE_ADDRESS__)
/* Called by the address sanitizer before it ends the process. */
void __asan_on_error(void);
void __asan_on_error(void) {
  release_stderr();
  (void)fprintf(stderr, "%s: the address sanitizer reports:\n", now.text);
}
#endif

/* ---- what scenarios use ---- */

static Memory *memory_of(lua_State *L) {
  void *ud;
  (void)lua_getallocf(L, &ud);
  return (Memory *)ud;
}

/* refused() -> how many allocations have failed */
static int t_refused(lua_State *L) {
  lua_pushinteger(L, memory_of(L)->refused + of_thread.refused);
  return 1;
}

/* fail_in_threads(): see above. To be called before the attempt. */
static int t_fail_in_threads(lua_State *L) {
  Memory *m = memory_of(L);
  m->in_threads = true;
  of_thread = (Memory){.armed = true, .mode = m->mode, .k = m->k, .random = m->random};
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
  lua_pushstring(L, captured());
  return 1;
}

/* The part of t_open that runs protected in the new state. */
static int open_core(lua_State *L) {
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  return 0;
}

/* variant(...) -> one of its arguments: the scenario runs once with each. */
static int t_variant(lua_State *L) {
  now.variants = lua_gettop(L);
  luaL_argcheck(L, now.variant < now.variants, 1, "each attempt must have as many variants");
  lua_pushvalue(L, now.variant + 1);
  return 1;
}

/* open(): makes a state, loads the core into it, and closes it. */
static int t_open(lua_State *L) {
  lua_State *fresh = lua_newstate(allocate, memory_of(L));
  if (!fresh) return luaL_error(L, "not enough memory");
  lua_pushcfunction(fresh, open_core);
  int status = lua_pcall(fresh, 0, 0, 0);
  lua_close(fresh);
  return status == LUA_OK ? 0 : luaL_error(L, "not enough memory");
}

/* ---- one attempt ---- */

/* Prints what is wrong and ends the program. */
static _Noreturn void fail(const char *format, ...) {
  static char message[MAX_REPORT];
  va_list args;
  va_start(args, format);
  /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start has initialized it; clang-tidy 14 does not see it */
  (void)vsnprintf(message, sizeof message, format, args);
  va_end(args);
  const char *text = now.real_stderr >= 0 ? captured() : "";
  release_stderr();
  (void)fprintf(stderr, "%s: %s\n", now.text, message);
  if (*text) (void)fprintf(stderr, "stderr of the attempt:\n%s", text);
  exit(EXIT_FAILURE);
}

static int with_traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

/* Calls the function on the stack, which must not fail. */
static void must_call(lua_State *L, int nargs, int nresults) {
  int handler = lua_gettop(L) - nargs;
  lua_pushcfunction(L, with_traceback);
  lua_insert(L, handler);
  if (lua_pcall(L, nargs, nresults, handler) != LUA_OK) fail("%s", lua_tostring(L, -1));
  lua_remove(L, handler);
}

static void must_load(lua_State *L, const char *file) {
  if (luaL_loadfile(L, file) != LUA_OK) fail("%s", lua_tostring(L, -1));
}

/* A state with the libraries, runnel, and the table t, which is on its stack. It does not collect yet. */
static lua_State *open_state(Memory *m) {
  lua_State *L = lua_newstate(allocate, m);
  if (!L) fail("no memory for a state");
  lua_gc(L, LUA_GCSTOP);
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_runnel_core);
  lua_setfield(L, -2, "runnel.core");
  lua_settop(L, 0);
  static const luaL_Reg functions[] = {{"refused", t_refused},
                                       {"fail_in_threads", t_fail_in_threads},
                                       {"arm", t_arm},
                                       {"captured", t_captured},
                                       {"invariants", invariants_check},
                                       {"variant", t_variant},
                                       {"open", t_open},
                                       {NULL, NULL}};
  must_load(L, "tests/oom_support.lua");
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

/* Runs a scenario once. Returns how many allocations its attempt has made, without Lua's second attempts; *untouched is
   whether none of them failed. */
static uint32_t attempt(const char *file, int collector, Mode mode, uint32_t k, uint64_t seed, bool *untouched) {
  Memory m = {.mode = mode, .k = k, .random = seed};
  of_thread = (Memory){0};
  (void)snprintf(now.text, sizeof now.text, "%s, variant %d, collector %s, %s %u, seed %u", file, now.variant + 1,
                 COLLECTORS[collector], MODES[mode], (unsigned)k, (unsigned)seed);
  lua_State *L = open_state(&m);
  must_load(L, file);
  lua_pushvalue(L, 1);
  must_call(L, 1, 3); /* t, the attempt, the check, whether it reports errors in any case */
  capture_stderr();
  start_collector(L, collector);
  lua_pushvalue(L, 2);
  m.armed = true;
  here = &m;
  int status = lua_pcall(L, 0, 0, 0);
  here = NULL;
  m.armed = false;
  start_collector(L, USUAL);
  if (collector != USUAL) lua_gc(L, LUA_GCINC, 200, 100, 0);
  uint32_t asked = m.in_threads ? of_thread.asked : m.asked;
  *untouched = m.refused + of_thread.refused == 0;
  if (status == LUA_OK) lua_pushnil(L);

  /* Calls checked(check, ok, err, reports). */
  lua_getfield(L, 1, "checked");
  lua_pushvalue(L, 3);
  lua_pushboolean(L, status == LUA_OK);
  lua_pushvalue(L, 5);
  lua_pushvalue(L, 4);
  must_call(L, 4, 0);
  lua_close(L);
  if (m.used) fail("closing the state left %zu bytes", m.used);
  if (of_thread.used) fail("the state of a thread left %zu bytes", of_thread.used);
  release_stderr();
  return asked;
}

/* Runs a variant of a scenario with each allocation failing in turn. Returns the number of attempts. */
static uint32_t run_variant(const char *file, bool is_long, uint32_t seeds) {
  uint32_t attempts = 0;
  for (int collector = 0; collector < NCOLLECTORS; collector++) {
    uint32_t most = 0;
    bool untouched;
    for (int mode = ONCE; mode <= ALL; mode++) {
      untouched = mode == ALL && collector != USUAL && !is_long;
      /* Every k; in the short form, with the other collectors and in threads, which open a whole state, fewer and fewer
         of the large ones. */
      uint32_t far = collector == USUAL || is_long ? UINT32_MAX : 32;
      for (uint32_t k = 1; !untouched; k += 1 + k / far, attempts++) {
        uint32_t asked = attempt(file, collector, (Mode)mode, k, 0, &untouched);
        if (k > MAX_ALLOCATIONS) fail("the attempt does not end");
        if (asked > most) most = asked;
        if (of_thread.armed && !is_long) far = 32;
      }
    }
    for (uint32_t seed = 1; seed <= seeds; seed++) {
      for (uint32_t k = 2; k <= most; k += 1 + k / 4, attempts++) {
        (void)attempt(file, collector, SOME, k, (uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15), &untouched);
      }
    }
  }
  return attempts;
}

/* Runs all variants of a scenario. */
static uint32_t run(const char *file, bool is_long, uint32_t seeds) {
  uint32_t attempts = 0;
  now.variants = 1;
  for (now.variant = 0; now.variant < now.variants; now.variant++) attempts += run_variant(file, is_long, seeds);
  return attempts;
}

int main(int argc, char **argv) {
  uint32_t seeds = 0;
  bool is_long = argc > 2 && strcmp(argv[1], "--long") == 0;
  int first = is_long ? 3 : 1;
  if (is_long) seeds = (uint32_t)strtoul(argv[2], NULL, 10);
  (void)signal(SIGABRT, on_crash);
#if !defined(__SANITIZE_ADDRESS__)
  (void)signal(SIGSEGV, on_crash);
#endif
  for (int i = first; i < argc; i++) {
    uint32_t attempts = run(argv[i], is_long, seeds);
    printf("%s: %u attempts\n", argv[i], (unsigned)attempts);
    (void)fflush(stdout);
  }
  return EXIT_SUCCESS;
}
