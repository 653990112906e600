/* allocator: checks how a state allocates small objects (lua/state/allocator.h, lua/state/spans.h).

     allocator [ROUNDS [SEED]]

   Random calls of the allocator beside a record of what each block holds; memory that goes back to the system; states
   that close; states that another library makes with the same allocator and runs in threads. Built with assertions, and
   with the thread sanitizer. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#endif
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

int luaopen_runnel_core(lua_State *L);

static uint64_t seed = 1;

static uint32_t below(uint32_t n) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 33) % n;
}

/* A state in which runnel is open. */
static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  CHECK(L);
  luaL_openlibs(L);
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  lua_settop(L, 0);
  return L;
}

/* The pages of that kind of /proc/self/statm, as bytes: 0 all addresses, 1 what is in memory. */
static size_t bytes_of_process(int kind) {
  FILE *file = fopen("/proc/self/statm", "r");
  unsigned long pages[2] = {0, 0};
  CHECK(file && fscanf(file, "%lu %lu", &pages[0], &pages[1]) == 2);
  (void)fclose(file);
  return pages[kind] * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- random calls ---- */

enum { BLOCKS = 50000 };

typedef struct Held {
  unsigned char *memory; /* NULL: none */
  size_t size;           /* in bytes */
  unsigned char byte;    /* what each of them is */
} Held;

static size_t random_size(void) {
  switch (below(8)) {
  case 0:
    return 1 + below(2500); /* some too large for the spans */
  case 1:
    return 1000 + below(50);
  case 2:
    return 1 + below(1024);
  default:
    return 1 + below(200);
  }
}

static void expect(const Held *held, size_t size) {
  for (size_t i = 0; i < size; i++) CHECK(held->memory[i] == held->byte);
}

static void fill(Held *held) {
  held->byte = (unsigned char)below(256);
  memset(held->memory, held->byte, held->size);
}

/* What the caller says about a block's size: sometimes it is wrong, as in some C libraries. */
static size_t claimed(const Held *held) { return below(10) ? held->size : 0; }

/* Calls at random, at first more that allocate, then more that free. */
static void random_calls(lua_Alloc allocate, void *data, Held *held, int rounds) {
  for (int round = 0; round < rounds; round++) {
    uint32_t grow = round % 4 < 2 ? 70 : 20, used = 1 + below(BLOCKS);
    for (int i = 0; i < 200000; i++) {
      Held *block = &held[below(used)];
      if (below(100) < grow) {
        size_t size = random_size();
        if (!block->memory) {
          block->memory = (unsigned char *)allocate(data, NULL, LUA_TSTRING, size);
        } else {
          expect(block, block->size);
          block->memory = (unsigned char *)allocate(data, block->memory, claimed(block), size);
          if (block->memory) expect(block, size < block->size ? size : block->size);
        }
        CHECK(block->memory && (uintptr_t)block->memory % 16 == 0);
        block->size = size;
        fill(block);
      } else if (block->memory) {
        expect(block, block->size);
        CHECK(!allocate(data, block->memory, claimed(block), 0));
        block->memory = NULL;
      }
    }
  }
  for (int i = 0; i < BLOCKS; i++) {
    if (!held[i].memory) continue;
    expect(&held[i], held[i].size);
    allocate(data, held[i].memory, held[i].size, 0);
    held[i].memory = NULL;
  }
  CHECK(!allocate(data, NULL, 0, 0));
}

static void check_calls(int rounds) {
  lua_State *L = open_state();
  void *data;
  lua_Alloc allocate = lua_getallocf(L, &data);
  CHECK(data);
  Held *held = (Held *)calloc(BLOCKS, sizeof(Held));
  CHECK(held);
  random_calls(allocate, data, held, rounds);
  free(held);
  lua_close(L);
}

/* ---- memory ---- */

static void run(lua_State *L, const char *text) {
  if (luaL_dostring(L, text) != LUA_OK) {
    (void)fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
  }
}

#if !defined(__SANITIZE_THREAD__) /* which keeps memory of its own for what the program has used */
/* After a peak most memory goes back while the program goes on with little, and what is allocated later gets it again. */
static void check_release(void) {
  lua_State *L = open_state();
  for (int i = 0; i < 3; i++) {
    size_t before = bytes_of_process(1);
    run(L, "list = {} for i = 1, 600000 do list[i] = { i } end");
    size_t peak = bytes_of_process(1);
    CHECK(peak > before + 30000000);
    run(L, "for i, t in ipairs(list) do assert(t[1] == i) end list = nil collectgarbage() collectgarbage()");
    run(L, "for i = 1, 8000000 do local t = { i } end");
    size_t after = bytes_of_process(1);
    CHECK(after < before + (peak - before) / 2);
  }
  lua_close(L);
}

#endif

/* A state that is closed gives its addresses back. */
static void check_closing(void) {
  lua_close(open_state());
  size_t before = bytes_of_process(0);
  for (int i = 0; i < 300; i++) lua_close(open_state());
  CHECK(bytes_of_process(0) < before + ((size_t)1 << 30));
}

static void *own_allocate(void *data, void *block, size_t old_size, size_t size) {
  (void)data;
  (void)old_size;
  if (size > 0) return realloc(block, size);
  free(block);
  return NULL;
}

/* A program that has set its own allocator keeps it. */
static void check_own(void) {
  lua_State *L = luaL_newstate();
  CHECK(L);
  lua_setallocf(L, own_allocate, NULL);
  luaL_requiref(L, "runnel.core", luaopen_runnel_core, 0);
  void *data;
  CHECK(lua_getallocf(L, &data) == own_allocate);
  lua_close(L);
}

/* ---- states that share an allocator ---- */

static const char work[] = "local list = {}\n"
                           "for i = 1, 60000 do list[i % 1000 + 1] = { tostring(i), function() return i end } end\n"
                           "for _, e in ipairs(list) do assert(e[1] == tostring(e[2]())) end";

static void *run_other(void *state) {
  lua_State *L = (lua_State *)state;
  luaL_openlibs(L);
  run(L, work);
  lua_close(L);
  return NULL;
}

/* Another library makes states with the allocator of this one, and runs them in threads while this one goes on. */
static void check_others(bool closed_first) {
  enum { OTHERS = 3 };
  lua_State *L = open_state();
  run(L, work);
  void *data;
  lua_Alloc allocate = lua_getallocf(L, &data);
  pthread_t threads[OTHERS];
  for (int i = 0; i < OTHERS; i++) {
    lua_State *other = lua_newstate(allocate, data);
    CHECK(other);
    CHECK(pthread_create(&threads[i], NULL, run_other, other) == 0);
  }
  run(L, work);
  if (closed_first) lua_close(L);
  for (int i = 0; i < OTHERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  if (!closed_first) {
    run(L, work);
    lua_close(L);
  }
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 8;
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  check_own();
  check_calls(rounds);
#if !defined(__SANITIZE_THREAD__)
  check_release();
#endif
  check_closing();
  check_others(false);
  check_others(true);
  puts("allocator: random calls, memory that goes back, states that close, and states that share an allocator");
  return 0;
}
