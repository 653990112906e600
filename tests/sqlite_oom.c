/* sqlite_oom: runnel.sqlite and runnel.store work while allocations fail: of Lua, of the core and the C module, and of
   SQLite. tests/sqlite_oom.lua has the scenarios; each runs in a state of its own, with a database and its thread, once
   for each allocation that fails, alone and with seven that follow, until none does.

   A scenario does its work, which may fail; then it does it again, when there is memory, and that must not fail. One
   that waits for ever ends the program, as does a state that leaves a descriptor. The address sanitizer looks for what
   is not freed. In a last run no allocation fails, but each instruction of Lua is followed by a full collection.

     sqlite_oom SCENARIOS STRIDE

   With a stride of 0 each allocation fails in turn; with n, beyond the n-th only some. */
#include <fcntl.h>
#include <lauxlib.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_sqlite_core(lua_State *L);

enum { PATIENCE = 60 }; /* seconds for one attempt */

static const luaL_Reg MODULES[] = {
    {"runnel.core", luaopen_runnel_core}, {"runnel.sqlite.core", luaopen_runnel_sqlite_core}, {NULL, NULL}};

/* ---- SQLite's memory: it is linked dynamically, and is told to use the functions that fail ---- */

/* In front of each block: its size. */
enum { FRONT = 16 };

static void *allocate(int size) {
  char *block = (char *)malloc((size_t)size + FRONT);
  if (!block) return NULL;
  memcpy(block, &size, sizeof size);
  return block + FRONT;
}

static void release(void *memory) { free((char *)memory - FRONT); }

static int size_of(void *memory) {
  int size = 0;
  if (memory) memcpy(&size, (char *)memory - FRONT, sizeof size);
  return size;
}

static void *reallocate(void *memory, int size) {
  char *block = (char *)realloc((char *)memory - FRONT, (size_t)size + FRONT);
  if (!block) return NULL;
  memcpy(block, &size, sizeof size);
  return block + FRONT;
}

static int round_up(int size) { return (size + 7) & ~7; }

static int begin(void *data) {
  (void)data;
  return SQLITE_OK;
}

static void end(void *data) { (void)data; }

/* ---- attempts ---- */

typedef struct Scenario {
  const char *file;
  int number;
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

/* The Lua thread and the database's count together. */
static void attempt(void *data) {
  Scenario *s = (Scenario *)data;
  memory_elsewhere = &s->memory;
  memory_now(&s->memory, PATIENCE, "sqlite_oom: scenario %d", s->number);
  lua_State *L = memory_open(&s->memory, MODULES);
  lua_register(L, "arm", arm);
  int status = luaL_loadfile(L, s->file);
  lua_pushinteger(L, s->number);
  if (status == LUA_OK) status = lua_pcall(L, 1, 2, 0);
  s->exists = status == LUA_OK && !lua_isnil(L, -2);
  if (s->exists) {
    memory_now(&s->memory, PATIENCE, "sqlite_oom: %s", lua_tostring(L, -2));
    if (s->collects) lua_sethook(L, collect, LUA_MASKCOUNT, 1);
    status = lua_pcall(L, 0, 0, 0);
  }
  s->memory.armed = false;
  memory_must(L, status);
  memory_close(L);
  int left = count_descriptors() - s->descriptors;
  if (left) memory_die("%d descriptors are left", left);
}

int main(int argc, char **argv) {
  if (argc != 3) return EXIT_FAILURE;
  static const sqlite3_mem_methods methods = {allocate, release, reallocate, size_of, round_up, begin, end, NULL};
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK || sqlite3_initialize() != SQLITE_OK) abort();
  Scenario s = {.file = argv[1], .descriptors = count_descriptors()};
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
  (void)printf("%u attempts at %d scenarios\n", (unsigned)attempts, s.number - 2);
  return s.number > 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
