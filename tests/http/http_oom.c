/* http_oom: the client of runnel.http makes requests while allocations fail: of Lua, of the core and the C module, and of
   libcurl. tests/http/http_oom.lua has the scenarios (scenarios.h); each run has a client and its thread. The server is a
   process of its own, which runs tests/http/http_oom_server.lua.

     http_oom SCENARIOS STRIDE */
#include <curl/curl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scenarios.h"

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_http_curl(lua_State *L);
int luaopen_runnel_http_core(lua_State *L);

static const luaL_Reg MODULES[] = {{"runnel.core", luaopen_runnel_core},
                                   {"runnel.http.curl", luaopen_runnel_http_curl},
                                   {"runnel.http.core", luaopen_runnel_http_core},
                                   {NULL, NULL}};

/* ---- the server ---- */

static int channel; /* a pipe on which the server writes its port */
static int port;    /* of the server */

/* ready(port) */
static int ready(lua_State *L) {
  port = (int)luaL_checkinteger(L, 1);
  if (write(channel, &port, sizeof port) != sizeof port) abort();
  return 0;
}

/* parent() -> the process that has started this one */
static int parent(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)getppid());
  return 1;
}

/* Starts a process that is the server; returns its id. */
static pid_t start_server(void) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  pid_t id = fork();
  if (id == 0) {
    channel = ends[1];
    Memory memory = {0};
    lua_State *L = memory_open(&memory, MODULES);
    lua_register(L, "ready", ready);
    lua_register(L, "parent", parent);
    memory_must(L, luaL_dofile(L, "tests/http/http_oom_server.lua"));
    _exit(0);
  }
  (void)close(ends[1]); /* else `read` would not end if the process does */
  bool ok = id > 0 && read(ends[0], &port, sizeof port) == sizeof port;
  if (!ok) memory_die("http_oom: the server does not start");
  (void)close(ends[0]);
  return id;
}

static int push_port(lua_State *L) {
  lua_pushinteger(L, port);
  return 1;
}

static char *curl_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = (char *)malloc(size);
  return copy ? (char *)memcpy(copy, text, size) : NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return EXIT_FAILURE;
  pid_t server = start_server();
  /* libcurl is linked dynamically: it gets the functions that fail. */
  if (curl_global_init_mem(CURL_GLOBAL_ALL, malloc, free, realloc, curl_strdup, calloc) != CURLE_OK) abort();
  const Scenarios scenarios = {.program = "http_oom", .file = argv[1], .modules = MODULES, .push = push_port};
  int status = scenarios_run(&scenarios, (uint32_t)atoi(argv[2]));
  (void)kill(server, SIGKILL);
  (void)waitpid(server, NULL, 0);
  return status;
}
