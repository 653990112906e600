/* threads: checks that Lua states in different threads share nothing, by running a Lua script in many at once.

     threads SCRIPT N

   Each of N threads opens a state, runs the script in it and closes it, a few times. The script returns an integer,
   which must be the same as in a run alone. The thread sanitizer reports data that the threads share. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int luaopen_runnel_core(lua_State *L);

enum { MAX_THREADS = 64, TIMES = 3 };

/* One thread's run. */
typedef struct Run {
  pthread_t thread;   /* the thread */
  const char *script; /* the script's file name */
  lua_Integer result; /* what the script has returned */
  bool ok;            /* whether it has returned the same integer each time */
} Run;

/* Runs the script in a state of its own. */
static bool run_once(const char *script, lua_Integer *result) {
  lua_State *L = luaL_newstate();
  if (!L) return false;
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_runnel_core);
  lua_setfield(L, -2, "runnel.core");
  lua_settop(L, 0);
  int is_integer = 0;
  if (luaL_dofile(L, script) != LUA_OK) {
    (void)fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
  } else {
    *result = lua_tointegerx(L, -1, &is_integer);
  }
  lua_close(L);
  return is_integer;
}

static void *run(void *data) {
  Run *self = (Run *)data;
  self->ok = run_once(self->script, &self->result);
  for (int i = 1; i < TIMES && self->ok; i++) {
    lua_Integer again;
    self->ok = run_once(self->script, &again) && again == self->result;
  }
  return NULL;
}

int main(int argc, char **argv) {
  long n = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
  if (n < 1 || n > MAX_THREADS) {
    (void)fprintf(stderr, "usage: threads SCRIPT N\n");
    return EXIT_FAILURE;
  }
  Run alone = {.script = argv[1]}, runs[MAX_THREADS];
  run(&alone);
  if (!alone.ok) return EXIT_FAILURE;
  for (long i = 0; i < n; i++) {
    runs[i] = (Run){.script = argv[1]};
    if (pthread_create(&runs[i].thread, NULL, run, &runs[i]) != 0) {
      perror("threads");
      return EXIT_FAILURE;
    }
  }
  int status = EXIT_SUCCESS;
  for (long i = 0; i < n; i++) {
    (void)pthread_join(runs[i].thread, NULL);
    if (runs[i].ok && runs[i].result == alone.result) continue;
    (void)fprintf(stderr, "the result of thread %ld differs from that of a run alone\n", i + 1);
    status = EXIT_FAILURE;
  }
  (void)printf("%ld threads, %d states in each: %lld every time\n", n, TIMES, (long long)alone.result);
  return status;
}
