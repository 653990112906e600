/* tls: the C module runnel.tls.core where memory runs out, and where several threads use a context.

     tls memory SCENARIOS STRIDE     tls.lua has the scenarios. Each allocation of Lua and of the module fails in
                                     turn, alone and with seven that follow; then also those of OpenSSL, of which there
                                     are many: beyond the n-th only some, if the stride is n; 0: all. A scenario may
                                     fail then, with an error; without failing allocations it must not. The address
                                     sanitizer looks for what is not freed.
     tls threads SECONDS             threads do handshakes by tls.h, as other C modules do, while the context is reloaded;
                                     the thread sanitizer watches.
     tls tickets                     keys of tickets change.

   The first two run the program openssl, to make certificates. */
#include <lauxlib.h>
#include <lualib.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../scenarios.h"
#include "tls/tickets.h"
#include "tls/tls.h"

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_tls_core(lua_State *L);

enum { THREADS = 4, TEXT = 40000 };

static const luaL_Reg MODULES[] = {
    {"runnel.core", luaopen_runnel_core}, {"runnel.tls.core", luaopen_runnel_tls_core}, {NULL, NULL}};

static char directory[] = "/tmp/runnel-tls-XXXXXX";

static void make_certificates(void) {
  if (!mkdtemp(directory)) memory_die("tls: there is no directory for certificates");
  char command[512];
  (void)snprintf(command, sizeof command,
                 "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
                 "-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key -out cert 2>/dev/null",
                 directory);
  if (system(command) != 0) memory_die("tls: openssl makes no certificate");
}

static void remove_certificates(void) {
  char command[64];
  (void)snprintf(command, sizeof command, "rm -r %s", directory);
  (void)system(command);
}

/* ---- memory ---- */

static int push_directory(lua_State *L) {
  lua_pushstring(L, directory);
  return 1;
}

static bool is_spared; /* OpenSSL's allocations do not fail */

/* OpenSSL's memory functions. */
static void *resize(void *block, size_t size, const char *file, int line) {
  (void)file;
  (void)line;
  Memory *counted = memory_elsewhere;
  if (is_spared) memory_elsewhere = NULL;
  void *result = block ? realloc(block, size) : malloc(size);
  memory_elsewhere = counted;
  return result;
}
static void *allocate(size_t size, const char *file, int line) { return resize(NULL, size, file, line); }
static void release(void *block, const char *file, int line) {
  (void)file;
  (void)line;
  free(block);
}

static int check_memory(const char *file, const char *stride) {
  if (!CRYPTO_set_mem_functions(allocate, resize, release)) abort();
  make_certificates();
  const Scenarios scenarios = {.program = "tls", .file = file, .modules = MODULES, .push = push_directory};
  is_spared = true; /* first those of the module and of Lua, each */
  int status = scenarios_run(&scenarios, 0);
  is_spared = false;
  if (status == EXIT_SUCCESS) status = scenarios_run(&scenarios, (uint32_t)atoi(stride));
  remove_certificates();
  return status;
}

/* ---- threads ---- */

typedef struct Shared {
  const tls_functions *tls;
  TlsContext *server, *client;
  atomic_bool ends;
  atomic_uint handshakes;
} Shared;

static const tls_functions *tls;

/* Moves what `from` has to send to `to`, in pieces. Returns whether there was anything. */
static bool move(Tls *from, Tls *to) {
  size_t n;
  bool any = false;
  while ((n = tls->pending(from)) > 0) {
    if (n > 1000) n = 1000;
    any = true;
    if (!tls->feed(to, tls->first(from), n)) memory_die("no memory");
    tls->drop(from, n);
  }
  return any;
}

static void must(bool ok, const Tls *session, const char *what) {
  if (!ok) memory_die("%s: %s", what, tls->error(session) ? tls->error(session) : "no error");
}

/* One connection: the handshake, a text, and the end. */
static void connect_once(Shared *shared) {
  Tls *server = tls->begin(shared->server, NULL), *client = tls->begin(shared->client, "localhost");
  char text[TEXT], got[TEXT];
  if (!server || !client) memory_die("no memory");
  must(tls->write(client, "x", 1) == TLS_WAIT, client, "a write before the handshake");
  do {
    must(tls->read(client, NULL, 0) == TLS_WAIT, client, "the client's handshake");
    (void)move(client, server);
    must(tls->read(server, NULL, 0) == TLS_WAIT, server, "the server's handshake");
  } while (move(server, client));
  must(tls->is_ready(server) && tls->is_ready(client), client, "the handshake is not complete");
  must(tls->peer(client) && strcmp(tls->peer(client), "CN=localhost") == 0 && !tls->peer(server), client, "the peer");
  memset(text, 'x', sizeof text);
  must(tls->write(client, text, sizeof text) == sizeof text, client, "a write");
  must(tls->pending(client) > sizeof text, client, "pending");
  tls->end(client);
  (void)move(client, server);
  size_t total = 0;
  ptrdiff_t n;
  while ((n = tls->read(server, got + total, sizeof got - total)) > 0) total += (size_t)n;
  if (total < sizeof text || memcmp(text, got, sizeof text) != 0) memory_die("a text was changed");
  must(tls->read(server, got, sizeof got) == TLS_END, server, "the end");
  tls->free(server);
  tls->free(client);
  atomic_fetch_add(&shared->handshakes, 1);
}

static void *run(void *data) {
  Shared *shared = (Shared *)data;
  while (!atomic_load(&shared->ends)) connect_once(shared);
  return NULL;
}

static int check_threads(unsigned seconds) {
  make_certificates();
  Memory memory = {0};
  lua_State *L = memory_open(&memory, MODULES);
  memory_must(L, luaL_loadstring(L, "local at, core = ..., require 'runnel.tls.core'\n"
                                    "return core.context(true, { cert = at .. '/cert', key = at .. '/key' }),\n"
                                    "  core.context(false, { ca = at .. '/cert' })"));
  lua_pushstring(L, directory);
  memory_must(L, lua_pcall(L, 1, 2, 0));
  tls = tls_get_functions(L);
  if (!tls) memory_die("there is no table of functions");
  Shared shared = {.tls = tls, .server = tls->hold(L, -2), .client = tls->hold(L, -1)};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, run, &shared) != 0) abort();
  }
  time_t end = time(NULL) + (time_t)seconds;
  unsigned reloads = 0;
  do {
    memory_must(L, luaL_loadstring(L, "local s, c = ... assert(s:reload()) assert(c:reload())"));
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    memory_must(L, lua_pcall(L, 2, 0, 0));
    reloads++;
  } while (time(NULL) < end || !atomic_load(&shared.handshakes));
  atomic_store(&shared.ends, true);
  for (int i = 0; i < THREADS; i++) (void)pthread_join(threads[i], NULL);
  memory_close(L); /* the holds of this program keep the contexts */
  tls->release(shared.server);
  tls->release(shared.client);
  remove_certificates();
  (void)printf("%u handshakes during %u reloads\n", (unsigned)atomic_load(&shared.handshakes), reloads);
  return EXIT_SUCCESS;
}

/* ---- tickets ---- */

static int check_tickets(void) {
  Tickets tickets;
  TicketKey first, next, found;
  bool ok = tickets_init(&tickets) && tickets_newest(&tickets, &first) && tickets_newest(&tickets, &next) &&
            memcmp(&first, &next, sizeof first) == 0 && tickets_find(&tickets, first.name, &found) == 1 &&
            memcmp(&first, &found, sizeof first) == 0;
  if (!ok) memory_die("a key that is not due has changed");
  tickets.changes = 0;
  ok = tickets_newest(&tickets, &next) && memcmp(&first, &next, sizeof first) != 0 && tickets.changes > 0 &&
       tickets_find(&tickets, first.name, &found) == 2 && memcmp(&first, &found, sizeof first) == 0 &&
       tickets_find(&tickets, next.name, &found) == 1;
  if (!ok) memory_die("a key that was due has not changed, or the one before is lost");
  tickets.changes = 0;
  ok = tickets_newest(&tickets, &next) && tickets_find(&tickets, first.name, &found) == 0;
  if (!ok) memory_die("an old key still opens tickets");
  tickets_free(&tickets);
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "memory") == 0) return check_memory(argv[2], argv[3]);
  if (argc == 3 && strcmp(argv[1], "threads") == 0) return check_threads((unsigned)atoi(argv[2]));
  if (argc == 2 && strcmp(argv[1], "tickets") == 0) return check_tickets();
  return EXIT_FAILURE;
}
