/* httpd_oom: servers of runnel.http answer clients while allocations fail: in turn each of the first ones, of Lua and of
   the C module, alone and with seven that follow. Whatever fails, each connection must get an answer or be closed within
   some seconds, and nothing may be lost: the address sanitizer looks for that.

     httpd_oom ATTEMPTS */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_httpd_core(lua_State *L);
/* The linker's --wrap=NAME has these names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

enum { NONE = INT_MAX };

static atomic_int left = NONE; /* allocations until the first that fails; negative once it has; NONE: none fails */
static int failures;           /* how many fail then */
static atomic_int answered;    /* clients that got a whole answer */
static atomic_int refused;     /* clients whose connection was closed without one */
static atomic_int silent;      /* clients that have waited in vain */
static atomic_int clients;     /* that run */

/* Several threads may count at once; then it is another allocation that fails. */
static bool fails(void) {
  int before = atomic_fetch_sub(&left, 1);
  return before <= 0 && before > -failures;
}
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *block, size_t size) { return fails() ? NULL : __real_realloc(block, size); }

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size) {
  (void)ud;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  if (new_size > old_size || !block) return __wrap_realloc(block, new_size); /* Lua relies on shrinking */
  return __real_realloc(block, new_size);
}

/* ---- a client ---- */

static const char *const REQUESTS[] = {
    "GET /text HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /error HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
};
enum { NREQUESTS = sizeof REQUESTS / sizeof *REQUESTS };

static int port;

static void *be_client(void *data) {
  const char *request = (const char *)data;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct timeval limit = {.tv_sec = 10};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
            connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  assert(ok);
  (void)ok;
  (void)send(fd, request, strlen(request), MSG_NOSIGNAL);
  char bytes[4096];
  ssize_t n, all = 0;
  while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) all += n;
  (void)close(fd);
  atomic_fetch_add(n < 0 && all == 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? &silent
                   : all                                                          ? &answered
                                                                                  : &refused,
                   1);
  atomic_fetch_sub(&clients, 1);
  return NULL;
}

/* start(port, k): starts the clients; after k more allocations they fail. */
static int start(lua_State *L) {
  port = (int)luaL_checkinteger(L, 1);
  int k = (int)luaL_checkinteger(L, 2);
  atomic_store(&clients, NREQUESTS);
  for (int i = 0; i < NREQUESTS; i++) {
    pthread_t thread;
    int status = pthread_create(&thread, NULL, be_client, (void *)(uintptr_t)REQUESTS[i]);
    assert(status == 0);
    (void)status;
    (void)pthread_detach(thread);
  }
  atomic_store(&left, k);
  return 0;
}

/* running() -> whether clients run */
static int running(lua_State *L) {
  lua_pushboolean(L, atomic_load(&clients) > 0);
  if (!atomic_load(&clients)) atomic_store(&left, NONE);
  return 1;
}

static const char SCRIPT[] = "local k = ...\n"
                             "local rn, http = require 'runnel', require 'runnel.http'\n"
                             "rn.on_error(function() end)\n"
                             "local function f(req)\n"
                             "  if req.path == '/echo' then return 200, nil, req:body() end\n"
                             "  if req.path == '/error' then error 'on purpose' end\n"
                             "  if req.path == '/text' then return 200, { a = { '1', '2' } }, req.headers.host end\n"
                             "  return 200, nil, rn.to_chan { 'a', ('b'):rep(100000), 'c' }\n"
                             "end\n"
                             "local server = assert(http.serve(0, f, { timeout = 500, idle = 1000 }))\n"
                             "start(server.port, k)\n"
                             "while running() do pcall(rn.sleep, 1) end\n"
                             "server:close()\n";

static void attempt(int k) {
  lua_State *L = lua_newstate(allocate, NULL);
  assert(L);
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_runnel_core);
  lua_setfield(L, -2, "runnel.core");
  lua_pushcfunction(L, luaopen_runnel_httpd_core);
  lua_setfield(L, -2, "runnel.httpd.core");
  lua_pop(L, 1);
  lua_register(L, "start", start);
  lua_register(L, "running", running);
  int status = luaL_loadstring(L, SCRIPT);
  lua_pushinteger(L, k);
  if (status == LUA_OK) status = lua_pcall(L, 1, 0, 0);
  atomic_store(&left, NONE);
  if (status != LUA_OK) (void)fprintf(stderr, "httpd_oom: allocation %d: %s\n", k, lua_tostring(L, -1));
  assert(status == LUA_OK);
  lua_close(L);
  if (atomic_load(&silent)) (void)fprintf(stderr, "httpd_oom: allocation %d: a client has waited in vain\n", k);
  assert(!atomic_load(&silent));
}

int main(int argc, char **argv) {
  int attempts = argc > 1 ? atoi(argv[1]) : 300;
  for (failures = 1; failures <= 8; failures *= 8) {
    for (int k = 0; k < attempts; k++) attempt(k);
  }
  (void)printf("%d answers, %d connections closed without one\n", atomic_load(&answered), atomic_load(&refused));
  assert(atomic_load(&refused) > 0);
  return 0;
}
