/* port: how many messages per second go from another thread through a port to a go block, and how long a message takes
   to wake a sleeping scheduler.

     port [MESSAGES]

   There is one poster, which waits when the port is full, and one go block, which takes. */
#include "capi/runnel.h"

#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef enum Kind { INTEGERS, STRINGS, CALLS } Kind;

typedef struct Run {
  const char *name;  /* for the table */
  Kind kind;         /* what is posted */
  size_t buffer;     /* the size of the channel's buffer */
  size_t limit;      /* the port's limit */
  long messages;     /* how many to post */
  runnel_port *port; /* the port to post to */
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

/* Makes a state, and the run's port to its global channel. */
static lua_State *open_run(Run *run) {
  lua_State *L = luaL_newstate();
  if (!L) exit(EXIT_FAILURE);
  luaL_openlibs(L);
  check(L, runnel_open(L));
  runnel_chan *ch = NULL;
  check(L, runnel_chan_new(L, RUNNEL_FIXED, run->buffer, &ch));
  check(L, runnel_port_open(L, ch, run->limit, RUNNEL_CLOSE_CHANNEL, &run->port));
  check(L, runnel_chan_push(L, ch));
  lua_setglobal(L, "ch");
  return L;
}

/* Runs Lua code as a go block until it ends. */
static void drain(lua_State *L, const char *code) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel");
  int status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK) lua_getfield(L, -1, "run");
  if (status == LUA_OK) status = luaL_loadstring(L, code);
  if (status == LUA_OK) status = lua_pcall(L, 1, 1, 0);
  if (status == LUA_OK) return;
  (void)fprintf(stderr, "port: %s\n", lua_tostring(L, -1));
  exit(EXIT_FAILURE);
}

static pthread_t start(void *(*f)(void *), Run *run) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, f, run) != 0) exit(EXIT_FAILURE);
  return thread;
}

static void measure(Run run) {
  lua_State *L = open_run(&run);
  double begun = now();
  pthread_t thread = start(post_all, &run);
  drain(L, "local n = 0 for _ in ch do n = n + 1 end return n");
  double took = now() - begun;
  if (lua_tointeger(L, -1) != run.messages) exit(EXIT_FAILURE);
  (void)pthread_join(thread, NULL);
  lua_close(L);
  printf("%-34s %8.2f million/s %8.0f ns\n", run.name, (double)run.messages / took * 1e-6,
         took * 1e9 / (double)run.messages);
  (void)fflush(stdout);
}

/* ---- waking a sleeping scheduler ---- */

static atomic_long taken; /* how many messages the go block has taken */

static int count_taken(lua_State *L) {
  (void)L;
  atomic_fetch_add(&taken, 1);
  return 0;
}

/* Posts each message after the go block has taken the one before. */
static void *post_slowly(void *arg) {
  const Run *run = (const Run *)arg;
  for (long i = 0; i < run->messages; i++) {
    int code;
    while ((code = runnel_post_integer(run->port, i)) == RUNNEL_FULL) continue; /* taken, but still counted */
    if (code != RUNNEL_OK) exit(EXIT_FAILURE);
    while (atomic_load(&taken) <= i) continue;
  }
  (void)runnel_port_release(run->port);
  return NULL;
}

static void measure_waking(Run run) {
  lua_State *L = open_run(&run);
  lua_register(L, "taken", count_taken);
  double begun = now();
  pthread_t thread = start(post_slowly, &run);
  drain(L, "for _ in ch do taken() end");
  double took = now() - begun;
  (void)pthread_join(thread, NULL);
  lua_close(L);
  printf("%-36s %8.1f us from a post to the go block\n", run.name, took * 1e6 / (double)run.messages);
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
  measure_waking((Run){.name = "one at a time, scheduler asleep", .limit = 1, .messages = 1 + n / 100});
  return EXIT_SUCCESS;
}
