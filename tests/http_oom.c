/* http_oom: the client of runnel.http makes requests while allocations fail: of Lua, of the core and the C module, and of
   libcurl. tests/http_oom.lua has the scenarios; each runs in a state of its own, with a client and its thread, once for
   each allocation that fails, until none does. The server is a thread of this program, whose allocations do not fail.

   A scenario makes its requests, which may fail; then it makes them again, when there is memory, and they must not. A
   request that waits for ever ends the program, as does a state that leaves a descriptor. The address sanitizer looks
   for what is not freed.

   In a last run no allocation fails, but each instruction of Lua is followed by a full collection.

     http_oom SCENARIOS STRIDE

   With a stride of 0 each allocation fails in turn; with n, beyond the n-th only some. */
#include <arpa/inet.h>
#include <assert.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_http_curl(lua_State *L);

enum { PATIENCE = 60 }; /* seconds for one attempt */

/* ---- allocations that fail ---- */

/* The linker's --wrap=NAME has these names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

static atomic_bool armed; /* allocations fail */
static atomic_int left;   /* how many there are before the first that fails; below 0 once it has */
static int failures;      /* how many fail then */
static _Thread_local bool is_server;

/* The Lua thread and the client's count together; so from run to run it may be another allocation that fails. */
static bool fails(void) {
  if (is_server || !atomic_load(&armed)) return false;
  int before = atomic_fetch_sub(&left, 1);
  return before <= 0 && before > -failures;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *block, size_t size) { return fails() ? NULL : __real_realloc(block, size); }

static char *curl_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = (char *)__wrap_malloc(size);
  return copy ? (char *)memcpy(copy, text, size) : NULL;
}

/* What Lua wanted when it got nothing: it collects, and tries again. That fails, too. */
static const void *last_block;
static size_t last_size;

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size) {
  (void)ud;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  if (!block || new_size > old_size) { /* Lua relies on shrinking */
    bool is_again = last_size == new_size && last_block == block;
    last_size = 0;
    if (is_again) return NULL;
    if (fails()) {
      last_size = new_size;
      last_block = block;
      return NULL;
    }
  }
  return __real_realloc(block, new_size);
}

/* ---- the server ---- */

static atomic_int connections; /* how many are open */
static int port;

enum { CHUNKS = 40, CHUNK = 10000 };

static bool send_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes += n;
    size -= (size_t)n;
  }
  return true;
}

static bool send_text(int fd, const char *text) { return send_all(fd, text, strlen(text)); }

/* A body that is longer than what the client keeps of a stream. */
static bool send_chunks(int fd) {
  char bytes[CHUNK];
  memset(bytes, 'x', sizeof bytes);
  if (!send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")) return false;
  for (int i = 0; i < CHUNKS; i++) {
    char size[16];
    (void)snprintf(size, sizeof size, "%x\r\n", (unsigned)CHUNK);
    if (!send_text(fd, size) || !send_all(fd, bytes, sizeof bytes) || !send_text(fd, "\r\n")) return false;
  }
  return send_text(fd, "0\r\n\r\n");
}

/* "hello", compressed. */
static bool send_gzip(int fd) {
  static const unsigned char BODY[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd,
                                       0xc9, 0xc9, 0x07, 0x00, 0x86, 0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};
  char head[128];
  int size = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n",
                      (int)sizeof BODY);
  return send_all(fd, head, (size_t)size) && send_all(fd, (const char *)BODY, sizeof BODY);
}

/* Answers with the number of bytes that were sent, as they came, chunks included. */
static bool send_count(int fd, size_t count) {
  char number[24], answer[128];
  int size = snprintf(number, sizeof number, "%zu", count);
  (void)snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, number);
  return send_text(fd, answer);
}

typedef struct Input {
  int fd;
  size_t size;           /* how many bytes there are */
  char bytes[64 * 1024]; /* ends with 0 */
} Input;

static bool receive(Input *in) {
  ssize_t n = recv(in->fd, in->bytes + in->size, sizeof in->bytes - 1 - in->size, 0);
  if (n <= 0) return false;
  in->size += (size_t)n;
  in->bytes[in->size] = '\0';
  return true;
}

static void drop(Input *in, size_t size) {
  in->size -= size;
  memmove(in->bytes, in->bytes + size, in->size + 1);
}

/* Reads a body: of a known length, or until the end of the last chunk. Returns its size, or -1. */
static int64_t read_body(Input *in, int64_t length) {
  int64_t count = 0;
  while (length < 0 || count < length) {
    if (length < 0 && in->size >= 5 && memcmp(in->bytes + in->size - 5, "0\r\n\r\n", 5) == 0) {
      count += (int64_t)in->size;
      drop(in, in->size);
      return count;
    }
    size_t keep = length < 0 && in->size > 4 ? 4 : length < 0 ? in->size : 0; /* the end may come in two parts */
    count += (int64_t)(in->size - keep);
    drop(in, in->size - keep);
    if ((length < 0 || count < length) && !receive(in)) return -1;
  }
  return count;
}

/* Answers one request; false if the connection is over. */
static bool answer(Input *in) {
  char *end;
  while (!(end = strstr(in->bytes, "\r\n\r\n"))) {
    if (!receive(in)) return false;
  }
  char path[16] = "";
  int64_t length = 0;
  (void)sscanf(in->bytes, "%*s /%15[a-z]", path);
  for (const char *line = strchr(in->bytes, '\n') + 1; line < end; line = strchr(line, '\n') + 1) {
    if (strncasecmp(line, "Content-Length:", 15) == 0) length = strtoll(line + 15, NULL, 10);
    if (strncasecmp(line, "Transfer-Encoding:", 18) == 0) length = -1;
    if (strncasecmp(line, "Expect:", 7) == 0 && !send_text(in->fd, "HTTP/1.1 100 Continue\r\n\r\n")) return false;
  }
  drop(in, (size_t)(end + 4 - in->bytes));
  int64_t count = read_body(in, length);
  if (count < 0) return false;
  if (strcmp(path, "count") == 0) return send_count(in->fd, (size_t)count);
  if (strcmp(path, "chunks") == 0) return send_chunks(in->fd);
  if (strcmp(path, "gzip") == 0) return send_gzip(in->fd);
  if (strcmp(path, "redirect") == 0)
    return send_text(in->fd, "HTTP/1.1 302 Found\r\nLocation: /text\r\nContent-Length: 0\r\n\r\n");
  if (strcmp(path, "silence") == 0) return receive(in);
  return send_text(in->fd, "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-One: 1\r\nx-one: 2\r\n"
                           "Content-Length: 5\r\n\r\nhello");
}

static void *serve_connection(void *data) {
  is_server = true;
  Input in = {.fd = (int)(intptr_t)data};
  while (answer(&in)) {
  }
  (void)close(in.fd);
  atomic_fetch_sub(&connections, 1);
  return NULL;
}

static void *serve(void *data) {
  is_server = true;
  int listening = (int)(intptr_t)data;
  for (;;) {
    int fd = accept(listening, NULL, NULL);
    pthread_t thread;
    assert(fd >= 0);
    atomic_fetch_add(&connections, 1);
    int status = pthread_create(&thread, NULL, serve_connection, (void *)(intptr_t)fd);
    assert(status == 0);
    (void)status;
    (void)pthread_detach(thread);
  }
}

static void start_server(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  pthread_t thread;
  bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 100) == 0 &&
            getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
            pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0;
  assert(ok);
  (void)ok;
  port = ntohs(address.sin_port);
}

/* ---- attempts ---- */

static char now[128];   /* what is running, for messages */
static int descriptors; /* how many are open while no scenario runs */

static void on_alarm(int number) {
  (void)number;
  (void)!write(STDERR_FILENO, now, strlen(now));
  (void)!write(STDERR_FILENO, ": a request waits for ever, or a descriptor is left\n", 52);
  abort();
}

/* arm(on): allocations fail from now on, or no more. */
static int arm(lua_State *L) {
  atomic_store(&armed, lua_toboolean(L, 1));
  last_size = 0;
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

static void open_library(lua_State *L, const char *name, lua_CFunction open) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

/* Runs a scenario by its number; the first failure is that of the k-th allocation. Returns whether there is such a
   scenario. */
static bool attempt(const char *file, int scenario, int k, bool collects) {
  atomic_store(&left, k);
  (void)alarm(PATIENCE);
  lua_State *L = lua_newstate(allocate, NULL);
  assert(L);
  luaL_openlibs(L);
  open_library(L, "runnel.core", luaopen_runnel_core);
  open_library(L, "runnel.http.curl", luaopen_runnel_http_curl);
  lua_register(L, "arm", arm);
  int status = luaL_loadfile(L, file);
  lua_pushinteger(L, scenario);
  lua_pushinteger(L, port);
  if (status == LUA_OK) status = lua_pcall(L, 2, 2, 0);
  bool exists = status == LUA_OK && !lua_isnil(L, -2);
  if (exists) {
    (void)snprintf(now, sizeof now, "http_oom: %s, allocation %d, %d failures", lua_tostring(L, -2), k, failures);
    if (collects) lua_sethook(L, collect, LUA_MASKCOUNT, 1);
    status = lua_pcall(L, 0, 0, 0);
  }
  atomic_store(&armed, false);
  if (status != LUA_OK) (void)fprintf(stderr, "%s: %s\n", now, lua_tostring(L, -1));
  assert(status == LUA_OK);
  lua_close(L);
  /* The server may accept a connection after it was closed. The alarm ends this. */
  while (atomic_load(&connections) > 0 || count_descriptors() != descriptors)
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  return exists;
}

/* Runs a scenario with each allocation that fails. Returns how many attempts that took. */
static int attempt_all(const char *file, int scenario, int stride) {
  int attempts = 0;
  for (int k = 0;; k += stride && k > stride ? k / stride : 1) {
    if (!attempt(file, scenario, k, false)) return 0;
    attempts++;
    if (atomic_load(&left) >= 0) return attempts;
  }
}

int main(int argc, char **argv) {
  assert(argc == 3);
  (void)argc;
  const char *file = argv[1];
  (void)signal(SIGALRM, on_alarm);
  CURLcode code =
      curl_global_init_mem(CURL_GLOBAL_ALL, __wrap_malloc, free, __wrap_realloc, curl_strdup, __wrap_calloc);
  assert(code == CURLE_OK);
  (void)code;
  start_server();
  descriptors = count_descriptors(); /* not at each attempt: the server may still accept a connection of the last one */
  int scenarios = 0, attempts = 0;
  for (failures = 1; failures <= 8; failures *= 8) {
    for (int n = 1, done; (done = attempt_all(file, n, atoi(argv[2]))) > 0; n++) {
      attempts += done;
      scenarios = n;
    }
  }
  failures = 0;
  for (int n = 1; n <= scenarios; n++) (void)attempt(file, n, 0, true);
  (void)printf("%d attempts at %d scenarios\n", attempts, scenarios);
  return 0;
}
