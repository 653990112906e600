/* http_oom: the client of runnel.http makes requests while allocations fail: of Lua, of the core and the C module, and of
   libcurl. tests/http_oom.lua has the scenarios; each runs in a state of its own, with a client and its thread, once for
   each allocation that fails, alone and with seven that follow, until none does. The server is a process of its own,
   which runs tests/http_oom_server.lua.

   A scenario makes its requests, which may fail; then it makes them again, when there is memory, and they must not. A
   request that waits for ever ends the program, as does a state that leaves a descriptor. The address sanitizer looks
   for what is not freed.

   In a last run no allocation fails, but each instruction of Lua is followed by a full collection.

     http_oom SCENARIOS STRIDE

   With a stride of 0 each allocation fails in turn; with n, beyond the n-th only some. */
#include <curl/curl.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_http_curl(lua_State *L);
int luaopen_runnel_http_core(lua_State *L);

enum { PATIENCE = 60 }; /* seconds for one attempt */

static const luaL_Reg MODULES[] = {{"runnel.core", luaopen_runnel_core},
                                   {"runnel.http.curl", luaopen_runnel_http_curl},
                                   {"runnel.http.core", luaopen_runnel_http_core},
                                   {NULL, NULL}};

/* ---- the server ---- */

static int channel; /* a pipe on which the server writes its port */

/* ready(port) */
static int ready(lua_State *L) {
  int port = (int)luaL_checkinteger(L, 1);
  if (write(channel, &port, sizeof port) != sizeof port) abort();
  return 0;
}

/* parent() -> the process that has started this one */
static int parent(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)getppid());
  return 1;
}

/* Starts a process that is the server; returns its id. */
static pid_t start_server(int *port) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  pid_t id = fork();
  if (id == 0) {
    channel = ends[1];
    Memory memory = {0};
    lua_State *L = memory_open(&memory, MODULES);
    lua_register(L, "ready", ready);
    lua_register(L, "parent", parent);
    memory_must(L, luaL_dofile(L, "tests/http_oom_server.lua"));
    _exit(0);
  }
  (void)close(ends[1]); /* else `read` would not end if the process does */
  bool ok = id > 0 && read(ends[0], port, sizeof *port) == sizeof *port;
  if (!ok) memory_die("http_oom: the server does not start");
  (void)close(ends[0]);
  return id;
}

/* ---- attempts ---- */

typedef struct Scenario {
  const char *file;
  int number;
  int port;        /* of the server */
  int descriptors; /* how many are open while no scenario runs */
  bool collects;   /* after each instruction */
  bool exists;     /* there is a scenario with this number */
  Memory memory;
} Scenario;

/* arm(on): allocations fail from now on, or no more. */
static int arm(lua_State *L) {
  memory_of(L)->armed = lua_toboolean(L, 1);
  return 0;
}

static int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static void collect(lua_State *L, lua_Debug *ar) {
  (void)ar;
  (void)lua_gc(L, LUA_GCCOLLECT);
}

/* The Lua thread and the client's count together. */
static void attempt(void *data) {
  Scenario *s = (Scenario *)data;
  memory_elsewhere = &s->memory;
  memory_now(&s->memory, PATIENCE, "http_oom: scenario %d", s->number);
  lua_State *L = memory_open(&s->memory, MODULES);
  lua_register(L, "arm", arm);
  int status = luaL_loadfile(L, s->file);
  lua_pushinteger(L, s->number);
  lua_pushinteger(L, s->port);
  if (status == LUA_OK) status = lua_pcall(L, 2, 2, 0);
  s->exists = status == LUA_OK && !lua_isnil(L, -2);
  if (s->exists) {
    memory_now(&s->memory, PATIENCE, "http_oom: %s", lua_tostring(L, -2));
    if (s->collects) lua_sethook(L, collect, LUA_MASKCOUNT, 1);
    status = lua_pcall(L, 0, 0, 0);
  }
  s->memory.armed = false;
  memory_must(L, status);
  memory_close(L);
  int left = count_descriptors() - s->descriptors;
  if (left) memory_die("%d descriptors are left", left);
}

static char *curl_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = (char *)malloc(size);
  return copy ? (char *)memcpy(copy, text, size) : NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return EXIT_FAILURE;
  Scenario s = {.file = argv[1]};
  pid_t server = start_server(&s.port);
  /* libcurl is linked dynamically: it gets the functions that fail. */
  if (curl_global_init_mem(CURL_GLOBAL_ALL, malloc, free, realloc, curl_strdup, calloc) != CURLE_OK) abort();
  s.descriptors = count_descriptors();
  uint32_t far = (uint32_t)atoi(argv[2]), attempts = 0;
  if (!far) far = UINT32_MAX;
  for (s.number = 1; s.number == 1 || s.exists; s.number++) {
    for (uint32_t count = 1; count <= 8; count *= 8) {
      attempts += memory_each(&s.memory, count, &far, MEMORY_MOST, attempt, &s);
    }
    s.collects = true;
    s.memory = (Memory){0};
    attempt(&s);
    s.collects = false;
  }
  (void)kill(server, SIGKILL);
  (void)waitpid(server, NULL, 0);
  (void)printf("%u attempts at %d scenarios\n", (unsigned)attempts, s.number - 2);
  return s.number > 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
