/* shared_lua: states in threads of their own that share channels, all running the same Lua script.

   shared_lua SCRIPT THREADS CHANNELS VALUES MODE [SEED]

   The main thread makes CHANNELS shared channels, with buffers of different sizes, and starts THREADS threads, each
   with a state, which runs

   SCRIPT(id, seed, mode, host, channels...)

   `host` has: value() -> a number that no other call returns, or nil once VALUES have been given out; accepted(v):
   the value was put; taken(v): it was taken. In the end the main thread takes what is left in the channels. With the
   mode "orderly" each value that was accepted must have been taken once, or be left. With the mode "abrupt", where
   states end with go blocks that wait, none may have been taken twice. */
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../invariants.h"
#include "states/shared_handle.h"

int luaopen_runnel_core(lua_State *L);

enum { MAX_THREADS = 16, MAX_CHANNELS = 8 };

/* What all threads share. */
typedef struct Run {
  const char *script;
  const char *mode;
  SharedChan *channels[MAX_CHANNELS];
  int nchannels;
  long nvalues;
  atomic_long next;       /* the next value */
  atomic_uchar *accepted; /* by value: how often it was put */
  atomic_uchar *taken;    /* how often it was taken */
} Run;

typedef struct Thread {
  pthread_t id;
  Run *of;
  long seed;
  int number;
  bool ok;
} Thread;

static Run *run_of(lua_State *L) { return (Run *)lua_touserdata(L, lua_upvalueindex(1)); }

static int host_value(lua_State *L) {
  Run *w = run_of(L);
  long v = atomic_fetch_add(&w->next, 1);
  if (v >= w->nvalues) return 0;
  lua_pushinteger(L, v);
  return 1;
}

static int count(lua_State *L, atomic_uchar *counts) {
  lua_Integer v = luaL_checkinteger(L, 1);
  luaL_argcheck(L, v >= 0 && v < run_of(L)->nvalues, 1, "not a value");
  atomic_fetch_add(&counts[v], 1);
  return 0;
}

static int host_accepted(lua_State *L) { return count(L, run_of(L)->accepted); }
static int host_taken(lua_State *L) { return count(L, run_of(L)->taken); }

/* (n, channels as light userdata) -> their handles; its upvalue is the scheduler */
static int push_channels(lua_State *L) {
  int n = lua_gettop(L);
  for (int i = 1; i <= n; i++) shared_handle_push(L, sched_self(L), (SharedChan *)lua_touserdata(L, i));
  return n;
}

/* Protected: runs the script: (thread) */
static int run_script(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"value", host_value}, {"accepted", host_accepted}, {"taken", host_taken}, {NULL, NULL}};
  Thread *t = (Thread *)lua_touserdata(L, 1);
  Run *w = t->of;
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_runnel_core);
  lua_setfield(L, -2, "runnel.core");
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  lua_settop(L, 1);
  if (luaL_loadfile(L, w->script) != LUA_OK) return lua_error(L);
  lua_pushinteger(L, t->number);
  lua_pushinteger(L, t->seed);
  lua_pushstring(L, w->mode);
  lua_newtable(L);
  lua_pushlightuserdata(L, w);
  luaL_setfuncs(L, functions, 1);
  (void)invariants_sched(L);
  lua_pushcclosure(L, push_channels, 1);
  for (int i = 0; i < w->nchannels; i++) lua_pushlightuserdata(L, w->channels[i]);
  lua_call(L, w->nchannels, w->nchannels);
  lua_call(L, 4 + w->nchannels, 0);
  return 0;
}

static void *run(void *data) {
  Thread *t = (Thread *)data;
  lua_State *L = luaL_newstate();
  if (!L) return NULL;
  lua_pushcfunction(L, run_script);
  lua_pushlightuserdata(L, t);
  t->ok = lua_pcall(L, 1, 0, 0) == LUA_OK;
  if (!t->ok) (void)fprintf(stderr, "thread %d: %s\n", t->number, luaL_tolstring(L, -1, NULL));
  lua_close(L);
  return NULL;
}

/* Whether the values add up. */
static bool check(Run *w, long *naccepted, long *ntaken) {
  bool orderly = strcmp(w->mode, "orderly") == 0;
  for (long v = 0; v < w->nvalues; v++) {
    int accepted = w->accepted[v], taken = w->taken[v];
    *naccepted += accepted;
    *ntaken += taken;
    if (taken > 1 || (orderly && taken != accepted)) {
      (void)fprintf(stderr, "value %ld: accepted %d times, taken %d times\n", v, accepted, taken);
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  Run w = {.nchannels = 0};
  Thread threads[MAX_THREADS + 1];
  long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
  w.nchannels = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
  w.nvalues = argc > 4 ? strtol(argv[4], NULL, 10) : 0;
  if (argc < 6 || n < 1 || n > MAX_THREADS || w.nchannels < 1 || w.nchannels > MAX_CHANNELS || w.nvalues < 1) {
    (void)fprintf(stderr, "usage: shared_lua SCRIPT THREADS CHANNELS VALUES MODE [SEED]\n");
    return EXIT_FAILURE;
  }
  w.script = argv[1];
  w.mode = argv[5];
  long seed = argc > 6 ? strtol(argv[6], NULL, 10) : 1;
  w.accepted = (atomic_uchar *)calloc((size_t)w.nvalues, 1);
  w.taken = (atomic_uchar *)calloc((size_t)w.nvalues, 1);
  for (int i = 0; i < w.nchannels; i++) {
    uint32_t size = (uint32_t)(i % 3 == 0 ? 0 : i * i);
    w.channels[i] = shared_chan_new(size ? BUFFER_FIXED : BUFFER_NONE, size, NULL);
  }
  bool ok = true;
  for (int i = 0; i < n; i++) {
    threads[i] = (Thread){.of = &w, .number = i + 1, .seed = seed * 1000 + i};
    if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0) abort();
  }
  for (int i = 0; i < n; i++) {
    (void)pthread_join(threads[i].id, NULL);
    ok = ok && threads[i].ok;
  }
  for (int i = 0; i < w.nchannels; i++) shared_chan_check(w.channels[i]);
  const char *mode = w.mode;
  w.mode = "rest";
  threads[n] = (Thread){.of = &w, .number = 0, .seed = seed};
  run(&threads[n]);
  w.mode = mode;
  ok = ok && threads[n].ok;
  long accepted = 0, taken = 0;
  ok = ok && check(&w, &accepted, &taken);
  for (int i = 0; i < w.nchannels; i++) {
    if (shared_chan_holds(w.channels[i]) != 1) {
      (void)fprintf(stderr, "channel %d: %u holds\n", i + 1, (unsigned)shared_chan_holds(w.channels[i]));
      ok = false;
    }
    shared_chan_release(w.channels[i]);
  }
  free(w.accepted);
  free(w.taken);
  (void)printf("%s: %s, %ld threads: %ld values accepted, %ld taken\n", ok ? "ok" : "FAILED", mode, n, accepted, taken);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
