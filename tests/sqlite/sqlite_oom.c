/* sqlite_oom: runnel.sqlite and runnel.store work while allocations fail: of Lua, of the core and the C module, and of
   SQLite. tests/sqlite/sqlite_oom.lua has the scenarios (scenarios.h); each run has a database and its thread.

     sqlite_oom SCENARIOS STRIDE */
#include <lauxlib.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../scenarios.h"

int luaopen_runnel_core(lua_State *L);
int luaopen_runnel_sqlite_core(lua_State *L);

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

int main(int argc, char **argv) {
  if (argc != 3) return EXIT_FAILURE;
  static const sqlite3_mem_methods methods = {allocate, release, reallocate, size_of, round_up, begin, end, NULL};
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK || sqlite3_initialize() != SQLITE_OK) abort();
  const Scenarios scenarios = {.program = "sqlite_oom", .file = argv[1], .modules = MODULES};
  return scenarios_run(&scenarios, (uint32_t)atoi(argv[2]));
}
