/* memory.c: see memory.h. */
#include "memory.h"

#include <lualib.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"

enum { MAX_REPORT = 65536 };

/* The linker's --wrap=NAME has these names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- which allocations fail ---- */

/* Counts an allocation. Several threads may count at once; then from run to run it may be another one that fails. */
static bool fails(Memory *m) {
  if (!atomic_load(&m->armed) || m->is_spared) return false;
  uint32_t number = atomic_fetch_add(&m->asked, 1) + 1;
  bool is_failing = m->first && number >= m->first && number - m->first < m->count;
  if (m->odds) {
    uint64_t random = m->random;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    m->random = random;
    is_failing = random % m->odds == 0;
  }
  if (is_failing) atomic_fetch_add(&m->refused, 1);
  return is_failing;
}

void memory_start(Memory *m, uint32_t first, uint32_t count) {
  atomic_store(&m->armed, false);
  atomic_store(&m->is_spared, false);
  atomic_store(&m->first, first);
  atomic_store(&m->count, count);
  atomic_store(&m->asked, 0);
  atomic_store(&m->refused, 0);
  m->used = m->new_size = 0;
}

void *memory_allocate(void *ud, void *block, size_t old_size, size_t new_size) {
  Memory *m = (Memory *)ud;
  if (!block) old_size = 0; /* it is the type of the object then */
  if (new_size == 0) {
    free(block);
    m->used -= old_size;
    return NULL;
  }
  if (new_size > old_size) {
    /* Not every Lua tries again during a collection. */
    bool is_again = atomic_load(&m->armed) && m->new_size == new_size && m->block == block && m->old_size == old_size;
    m->new_size = 0;
    if (is_again) return NULL;
    if (fails(m)) {
      m->block = block;
      m->old_size = old_size;
      m->new_size = new_size;
      return NULL;
    }
  }
  void *moved = __real_malloc(new_size);
  if (!moved) return NULL;
  if (block) {
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    free(block);
  }
  m->used += new_size - old_size;
  return moved;
}

_Thread_local Memory *memory_here;
Memory *_Atomic memory_elsewhere;

static bool malloc_fails(void) {
  Memory *m = memory_here ? memory_here : memory_elsewhere;
  return m && fails(m);
}

void *__wrap_malloc(size_t size) { return malloc_fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return malloc_fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *block, size_t size) { return malloc_fails() ? NULL : __real_realloc(block, size); }

/* ---- attempts ---- */

Memory *memory_of(lua_State *L) {
  void *ud;
  (void)lua_getallocf(L, &ud);
  return (Memory *)ud;
}

/* A file, compiled. */
typedef struct Chunk {
  char *file;
  char *code;
  size_t size;
  bool is_whole; /* nothing has failed meanwhile */
  struct Chunk *next;
} Chunk;

static Chunk *chunks;

static int add_code(lua_State *L, const void *piece, size_t size, void *ud) {
  (void)L;
  Chunk *chunk = (Chunk *)ud;
  char *code = (char *)__real_realloc(chunk->code, chunk->size + size + 1);
  if (!code) return 1;
  if (size) memcpy(code + chunk->size, piece, size);
  chunk->code = code;
  chunk->size += size;
  return 0;
}

int memory_load(lua_State *L, const char *file) {
  for (const Chunk *chunk = chunks; chunk; chunk = chunk->next) {
    bool is_it = chunk->is_whole && strcmp(chunk->file, file) == 0;
    if (is_it) return luaL_loadbufferx(L, chunk->code, chunk->size, file, "b");
  }
  int status = luaL_loadfile(L, file);
  if (status != LUA_OK) return status;
  Chunk *chunk = (Chunk *)__real_calloc(1, sizeof *chunk);
  if (!chunk) abort();
  size_t length = strlen(file) + 1;
  chunk->file = (char *)__real_malloc(length);
  if (!chunk->file) abort();
  memcpy(chunk->file, file, length);
  chunk->next = chunks;
  chunks = chunk;
  chunk->is_whole = lua_dump(L, add_code, chunk, 0) == 0;
  return LUA_OK;
}

/* In package.searchers, for files; the upvalue is `package`. */
static int search(lua_State *L) {
  lua_settop(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "searchpath");
  lua_pushvalue(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "path");
  lua_call(L, 2, 2);
  if (lua_isnil(L, 2)) return 1;
  lua_settop(L, 2);
  if (memory_load(L, lua_tostring(L, 2)) != LUA_OK) return lua_error(L);
  lua_pushvalue(L, 2);
  return 2;
}

lua_State *memory_open(Memory *m, const luaL_Reg *modules) {
  lua_State *L = lua_newstate(memory_allocate, m);
  if (!L) memory_die("no memory for a state");
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, modules, 0);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, search, 1);
  lua_rawseti(L, -2, 2);
  lua_settop(L, 0);
  return L;
}

static void collect_all(lua_State *L, lua_Debug *ar) {
  (void)ar;
  (void)lua_gc(L, LUA_GCCOLLECT);
}

void memory_collect(lua_State *L, int n) { lua_sethook(L, n ? collect_all : NULL, LUA_MASKCOUNT, n); }

void memory_close(lua_State *L) {
  const Memory *m = memory_of(L);
  lua_close(L);
  if (m->used) memory_die("closing the state left %zu bytes", m->used);
}

uint32_t memory_each(Memory *m, uint32_t count, const uint32_t *far, uint32_t most, void (*attempt)(void *),
                     void *data) {
  uint32_t attempts = 0;
  for (uint32_t k = 1; k <= most; k += 1 + k / *far) {
    memory_start(m, k, count);
    attempt(data);
    attempts++;
    if (!m->refused) return attempts;
  }
  if (most == MEMORY_MOST) memory_die("the attempt does not end");
  return attempts;
}

/* ---- reports ---- */

/* What runs now, also for a signal handler; and stderr, which is a file while it is captured. */
static struct {
  char text[512];
  int real_stderr;
  bool is_captured;
} now = {"", -1, false};

void memory_release(void) {
  (void)fflush(stderr);
  if (now.is_captured) (void)dup2(now.real_stderr, STDERR_FILENO);
  now.is_captured = false;
}

void memory_capture(void) {
  static FILE *file;
  (void)fflush(stderr);
  if (!file) {
    file = tmpfile();
    now.real_stderr = dup(STDERR_FILENO);
    if (!file || now.real_stderr < 0) abort();
  }
  if (ftruncate(fileno(file), 0) != 0 || dup2(fileno(file), STDERR_FILENO) < 0) abort();
  (void)lseek(STDERR_FILENO, 0, SEEK_SET);
  now.is_captured = true;
}

const char *memory_captured(void) {
  static char text[MAX_REPORT];
  (void)fflush(stderr);
  ssize_t n = now.is_captured ? pread(STDERR_FILENO, text, sizeof text - 1, 0) : 0;
  text[n > 0 ? n : 0] = '\0';
  return text;
}

/* Prints which attempt it was, and what was written to stderr; also in a signal handler. */
static void tell(const char *what) {
  static char text[MAX_REPORT];
  if (now.is_captured) (void)lseek(STDERR_FILENO, 0, SEEK_SET);
  ssize_t n = now.is_captured ? read(STDERR_FILENO, text, sizeof text) : 0;
  if (now.is_captured) (void)dup2(now.real_stderr, STDERR_FILENO);
  if (n > 0) (void)!write(STDERR_FILENO, text, (size_t)n);
  (void)!write(STDERR_FILENO, now.text, strlen(now.text));
  (void)!write(STDERR_FILENO, what, strlen(what));
  now.is_captured = false;
}

static void on_signal(int number) {
  tell(number == SIGALRM ? ": has not ended\n" : ": crashed\n");
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

/* ---- the limit of what runs now ---- */

static struct Limit {
  unsigned seconds; /* on an idle machine */
  long processors;
  time_t start;
} limit;

static time_t seconds_now(void) {
  struct timespec now_is;
  (void)clock_gettime(CLOCK_MONOTONIC, &now_is);
  return now_is.tv_sec;
}

static void on_alarm(int number) {
  time_t allowed = (time_t)limit.seconds * patience_factor(limit.processors);
  time_t passed = seconds_now() - limit.start;
  if (passed >= allowed) on_signal(number);
  else (void)alarm((unsigned)(allowed - passed));
}

void memory_limit(unsigned seconds) {
  (void)alarm(0);
  limit = (struct Limit){.seconds = seconds, .processors = patience_processors(), .start = seconds_now()};
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  (void)sigaction(SIGALRM, &action, NULL);
  (void)alarm(seconds);
}

/* The sanitizers call these before they write a report. NOLINTBEGIN(bugprone-reserved-identifier) */
__attribute__((visibility("default"))) void __asan_on_error(void);
void __asan_on_error(void) { tell(": a sanitizer reports:\n"); }
__attribute__((visibility("default"))) void __ubsan_on_report(void);
void __ubsan_on_report(void) { tell(": a sanitizer reports:\n"); }
/* NOLINTEND(bugprone-reserved-identifier) */

void memory_now(const Memory *m, unsigned seconds, const char *format, ...) {
  va_list args;
  va_start(args, format);
  /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start has initialized it; clang-tidy 14 does not see it */
  int n = vsnprintf(now.text, sizeof now.text, format, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof now.text) {
    char *end = now.text + n;
    size_t left = sizeof now.text - (size_t)n;
    if (m->odds) (void)snprintf(end, left, ", one allocation in %u fails", (unsigned)m->odds);
    else if (m->count == MEMORY_ALL) (void)snprintf(end, left, ", allocations fail from %u on", (unsigned)m->first);
    else (void)snprintf(end, left, ", allocation %u fails, %u in all", (unsigned)m->first, (unsigned)m->count);
  }
  (void)signal(SIGABRT, on_signal);
#if !defined(__SANITIZE_ADDRESS__) /* which has its own handler */
  (void)signal(SIGSEGV, on_signal);
#endif
  memory_limit(seconds);
}

void memory_die(const char *format, ...) {
  static char message[MAX_REPORT];
  va_list args;
  va_start(args, format);
  /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): see memory_now */
  (void)vsnprintf(message, sizeof message, format, args);
  va_end(args);
  const char *text = memory_captured();
  memory_release();
  (void)fprintf(stderr, "%s: %s\n", now.text, message);
  if (*text) (void)fprintf(stderr, "stderr of the attempt:\n%s", text);
  exit(EXIT_FAILURE);
}

void memory_must(lua_State *L, int status) {
  if (status != LUA_OK) memory_die("%s", lua_tostring(L, -1));
}
