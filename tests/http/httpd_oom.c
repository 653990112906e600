/* httpd_oom: servers of runnel.http answer clients while allocations fail: in turn each of the first ones, of Lua and of
   the C module, alone and with seven that follow. Whatever fails, each connection must get an answer or be closed within
   some seconds, and nothing may be lost: the address sanitizer looks for that.

     httpd_oom ATTEMPTS PARTS PART

   Where a request is lost, its client waits for the server's limit. So that several wait at once, each of PARTS processes
   makes a share of the attempts: that with the number PART, from 1. */
#include <arpa/inet.h>
#include <errno.h>
#include <lauxlib.h>
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

#include "../memory.h"

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_http_core(lua_State *L);

static atomic_int answered; /* clients that got a whole answer */
static atomic_int refused;  /* clients whose connection was closed without one */
static atomic_int silent;   /* clients that have waited in vain */
static atomic_int clients;  /* that run */

/* ---- a client ---- */

static const char *const REQUESTS[] = {
    "GET /text HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /error HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
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
  if (!ok) memory_die("a client cannot connect");
  (void)send(fd, request, strlen(request), MSG_NOSIGNAL);
  char bytes[4096];
  ssize_t n, all = 0;
  while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) all += n;
  bool is_silent = n < 0 && all == 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  (void)close(fd);
  atomic_fetch_add(is_silent ? &silent : all ? &answered : &refused, 1);
  atomic_fetch_sub(&clients, 1);
  return NULL;
}

/* start(port): starts the clients; allocations fail from now on. */
static int start(lua_State *L) {
  port = (int)luaL_checkinteger(L, 1);
  atomic_store(&clients, NREQUESTS);
  for (int i = 0; i < NREQUESTS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, be_client, (void *)(uintptr_t)REQUESTS[i]) != 0) abort();
    (void)pthread_detach(thread);
  }
  memory_of(L)->armed = true;
  return 0;
}

/* running() -> whether clients run */
static int running(lua_State *L) {
  lua_pushboolean(L, atomic_load(&clients) > 0);
  if (!atomic_load(&clients)) memory_of(L)->armed = false;
  return 1;
}

static const char SCRIPT[] = "local rn, http = require 'runnel', require 'runnel.http'\n"
                             "local lib = require('runnel.core').internal.require 'runnel.http.core'\n"
                             "rn.on_error(function() end)\n"
                             "local function f(req)\n"
                             "  if req.path == '/echo' then return 200, nil, req:body() end\n"
                             "  if req.path == '/error' then error 'on purpose' end\n"
                             "  if req.path == '/long' then return 200, nil, ('c'):rep(300000) end\n"
                             "  if req.path == '/file' then\n"
                             "    local file, size = lib.open('.', 'CHANGELOG.md', false, false)\n"
                             "    if size then req.core:respond_file(200, file, 0, size, 'a', '1') end\n"
                             "    return 200, nil, 'the system opens no file without waiting'\n"
                             "  end\n"
                             "  if req.path == '/text' then return 200, { a = { '1', '2' } }, req.headers.host end\n"
                             "  return 200, nil, rn.to_chan { 'a', ('b'):rep(100000), 'c' }\n"
                             "end\n"
                             "local server = assert(http.serve(0, f, { timeout = 500, idle = 1000 }))\n"
                             "start(server.port)\n"
                             "while running() do pcall(rn.sleep, 1) end\n"
                             "server:close()\n";

static uint32_t parts, part; /* this process makes each attempt whose number leaves the rest `part` */

static void attempt(void *data) {
  static const luaL_Reg modules[] = {
      {"runnel.core", luaopen_runnel_core}, {"runnel.http.core", luaopen_runnel_http_core}, {NULL, NULL}};
  Memory *m = (Memory *)data;
  if (m->first % parts != part) {
    m->refused = 1; /* it is not the last one */
    return;
  }
  memory_now(m, 60, "httpd_oom");
  lua_State *L = memory_open(m, modules);
  lua_register(L, "start", start);
  lua_register(L, "running", running);
  int status = luaL_dostring(L, SCRIPT);
  m->armed = false;
  memory_must(L, status);
  memory_close(L);
  if (atomic_load(&silent)) memory_die("a client has waited in vain");
}

int main(int argc, char **argv) {
  if (argc != 4) return EXIT_FAILURE;
  Memory m = {0};
  memory_elsewhere = &m;
  uint32_t attempts = (uint32_t)atoi(argv[1]), far = UINT32_MAX;
  parts = (uint32_t)atoi(argv[2]);
  part = (uint32_t)atoi(argv[3]) % parts;
  for (uint32_t count = 1; count <= 8; count *= 8) (void)memory_each(&m, count, &far, attempts, attempt, &m);
  (void)printf("httpd_oom %s of %s: %d answers, %d connections closed without one\n", argv[3], argv[2],
               atomic_load(&answered), atomic_load(&refused));
  if (!atomic_load(&refused)) memory_die("no failure has closed a connection");
  return 0;
}
