/* allocator.c: see allocator.h. */
#include "lua/state/allocator.h"

#include <lauxlib.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/loaded.h"
#include "lua/state/spans.h"

typedef struct Allocator {
  Spans spans; /* the small blocks */
  void *state; /* the block that the main lua_State is in, which lua_close frees last */
} Allocator;

/* Allocates a block that the spans do not have ready, a large one, or none for size 0. `kind` as for lua_Alloc.

   A program may make more states with this state's allocator and run them in other threads, as Lua Lanes does. A state
   begins with the only large block that is a thread. From then on all states get their memory from malloc, which is
   thread-safe; the blocks in the spans belong to this state alone. */
static NOINLINE void *get(Allocator *allocator, size_t kind, size_t size) {
  if (size == 0) return NULL;
  void *block = size <= BLOCK_MAX ? spans_get(&allocator->spans, size) : NULL;
  if (block) return block;
  if (kind == LUA_TTHREAD && size > BLOCK_MAX) spans_stop(&allocator->spans);
  return malloc(size);
}

/* Frees a large block. */
static void put_large(Allocator *allocator, void *block) {
  if (block == allocator->state && !allocator->spans.stopped) {
    spans_destroy(&allocator->spans);
    free(allocator);
  }
  free(block);
}

/* Changes the size of a block, or frees a large one. */
static NOINLINE void *resize(Allocator *allocator, void *block, size_t size) {
  Spans *spans = &allocator->spans;
  if (!spans_has(spans, block)) {
    if (size > 0) return realloc(block, size);
    put_large(allocator, block);
    return NULL;
  }
  size_t had = spans_size(spans, block);
  if (size <= had && size + BLOCK_UNIT > had) return block;
  void *copy = get(allocator, 0, size);
  if (!copy) return size <= had ? block : NULL;
  memcpy(copy, block, size < had ? size : had);
  spans_put(spans, block);
  return copy;
}

/* A lua_Alloc. Uses the spans' size of a block: not all C libraries pass the right one. Rare cases are separate
   functions, so that this one saves no registers. */
static void *reallocate(void *data, void *block, size_t old_size, size_t size) {
  Allocator *allocator = (Allocator *)data;
  if (!block) {
    void *got = LIKELY(size - 1 < BLOCK_MAX) ? spans_get_fast(&allocator->spans, size) : NULL;
    return LIKELY(got) ? got : get(allocator, old_size, size);
  }
  if (UNLIKELY(size > 0 || !spans_has(&allocator->spans, block))) return resize(allocator, block, size);
  spans_put(&allocator->spans, block);
  return NULL;
}

/* A lua_Alloc that stores its first block in *data. */
static void *note_first(void *data, void *block, size_t old_size, size_t size) {
  void **first = (void **)data;
  (void)old_size;
  if (size == 0) {
    free(block);
    return NULL;
  }
  void *got = realloc(block, size);
  if (!*first) *first = got;
  return got;
}

/* Returns how far the main lua_State is from the beginning of its block, which depends on the release of Lua; or -1 if
   memory runs out. The first block of a new state is that block. */
static ptrdiff_t main_state_offset(void) {
  void *first = NULL;
#if LUA_VERSION_NUM >= 505
  lua_State *L = lua_newstate(note_first, &first, 0);
#else
  lua_State *L = lua_newstate(note_first, &first);
#endif
  if (!L) return -1;
  ptrdiff_t offset = (char *)L - (char *)first;
  lua_close(L);
  return offset;
}

/* Whether the state has luaL_newstate's allocator, a function that lauxlib.h does not name. */
static bool has_usual_allocator(lua_State *L) {
  lua_State *other = luaL_newstate();
  if (!other) return false;
  void *data, *other_data;
  bool is_same = lua_getallocf(L, &data) == lua_getallocf(other, &other_data) && data == other_data;
  lua_close(other);
  return is_same;
}

void allocator_install(lua_State *L) {
  if (SANITIZES_ADDRESSES || getenv("RUNNEL_MALLOC") || !has_usual_allocator(L) || !stay_loaded()) return;
  ptrdiff_t offset = main_state_offset();
  Allocator *allocator = offset < 0 ? NULL : (Allocator *)malloc(sizeof(Allocator));
  if (!allocator) return;
  if (!spans_init(&allocator->spans)) {
    free(allocator);
    return;
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  allocator->state = (char *)lua_tothread(L, -1) - offset;
  lua_pop(L, 1);
  lua_setallocf(L, reallocate, allocator);
}
