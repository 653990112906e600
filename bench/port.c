/* port: messages a second from another thread through a port to a Lua go block.

     port [MESSAGES]

   One poster that waits for room when there is none, one go block that takes. */
#include "runnel.h"

#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef enum Kind { INTEGERS, STRINGS, CALLS } Kind;

typedef struct Run {
  const char *name;  /* for the table */
  Kind kind;         /* what is posted */
  size_t buffer;     /* of the channel */
  size_t limit;      /* of the port */
  long messages;     /* how many are posted */
  runnel_port *port; /* where to */
} Run;

static double now(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int check(lua_State *L, int code) {
  if (code >= RUNNEL_OK) return code;
  const char *message = runnel_message(L);
  (void)fprintf(stderr, "port: %s: %s\n", runnel_strerror(code), message ? message : "no message");
  exit(EXIT_FAILURE);
}

static int push_integer(lua_State *L, void *data) {
  lua_pushinteger(L, (lua_Integer)(intptr_t)data);
  return 1;
}

static int post_one(const Run *run, long i) {
  switch (run->kind) {
  case INTEGERS:
    return runnel_post_integer(run->port, i);
  case STRINGS:
    return runnel_post_bytes(run->port, "a small message", 15);
  case CALLS:
    return runnel_post_call(run->port, push_integer, NULL, (void *)(intptr_t)i);
  }
  return RUNNEL_BAD_ARGUMENT;
}

static void *post_all(void *arg) {
  const Run *run = (const Run *)arg;
  for (long i = 0; i < run->messages; i++) {
    int code;
    while ((code = post_one(run, i)) == RUNNEL_FULL) (void)runnel_port_wait(run->port);
    if (code != RUNNEL_OK) exit(EXIT_FAILURE);
  }
  (void)runnel_port_release(run->port);
  return NULL;
}

static void measure(Run run) {
  lua_State *L = luaL_newstate();
  if (!L) exit(EXIT_FAILURE);
  luaL_openlibs(L);
  check(L, runnel_open(L));
  runnel_chan *ch = NULL;
  check(L, runnel_chan_new(L, RUNNEL_FIXED, run.buffer, &ch));
  check(L, runnel_port_open(L, ch, run.limit, RUNNEL_CLOSE_CHANNEL, &run.port));
  check(L, runnel_chan_push(L, ch));
  lua_setglobal(L, "ch");
  double begun = now();
  pthread_t thread;
  if (pthread_create(&thread, NULL, post_all, &run) != 0) exit(EXIT_FAILURE);
  if (luaL_dostring(L, "local rn = require 'runnel'"
                       "return rn.run(function() local n = 0 for _ in ch do n = n + 1 end return n end)") != LUA_OK) {
    (void)fprintf(stderr, "port: %s\n", lua_tostring(L, -1));
    exit(EXIT_FAILURE);
  }
  double took = now() - begun;
  if (lua_tointeger(L, -1) != run.messages) exit(EXIT_FAILURE);
  (void)pthread_join(thread, NULL);
  lua_close(L);
  printf("%-34s %8.2f million/s %8.0f ns\n", run.name, (double)run.messages / took * 1e-6,
         took * 1e9 / (double)run.messages);
  (void)fflush(stdout);
}

int main(int argc, char **argv) {
  long n = argc > 1 ? strtol(argv[1], NULL, 10) : 5000000;
  measure((Run){.name = "integers, port 1024, chan()", .kind = INTEGERS, .limit = 1024, .messages = n});
  measure(
      (Run){.name = "integers, port 1024, chan(128)", .kind = INTEGERS, .buffer = 128, .limit = 1024, .messages = n});
  measure(
      (Run){.name = "integers, port 16384, chan(128)", .kind = INTEGERS, .buffer = 128, .limit = 16384, .messages = n});
  measure((Run){.name = "strings of 15, port 1024, chan()", .kind = STRINGS, .limit = 1024, .messages = n});
  measure((Run){
      .name = "strings of 15, port 1024, chan(128)", .kind = STRINGS, .buffer = 128, .limit = 1024, .messages = n});
  measure((Run){.name = "callbacks, port 1024, chan(128)", .kind = CALLS, .buffer = 128, .limit = 1024, .messages = n});
  return EXIT_SUCCESS;
}
