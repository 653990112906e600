/* memory.h: memory whose allocations fail, for programs that check what the library does then.

   A Memory counts allocations, and says which of them fail: those of a state that memory_open has made, and those of C
   code by malloc and its like, in threads that have it as memory_here, or in all threads by memory_elsewhere. The
   program is linked with memory.c and with the linker's --wrap=malloc,--wrap=calloc,--wrap=realloc (FAILING in
   tests/checks.mk).

   memory_each runs an attempt again and again, so that each of its allocations fails in turn. What goes wrong is reported
   by memory_die, after a text that says which attempt it was; a crash, a report of the address sanitizer, and an attempt
   that does not end are reported so, too. */
#ifndef RUNNEL_TEST_MEMORY_H
#define RUNNEL_TEST_MEMORY_H

#include <lauxlib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An attempt with more allocations than this counts as endless. */
enum { MEMORY_MOST = 200000 };

#define MEMORY_ALL UINT32_MAX

/* A library's thread may allocate while the next attempt begins, so what malloc reads is atomic. */
typedef struct Memory {
  size_t used;           /* bytes that the state has in use */
  atomic_bool armed;     /* allocations are counted, and may fail */
  atomic_bool is_spared; /* but none do, although armed */
  /* which fail */
  atomic_uint first;       /* the number of the first one, from 1; 0: none */
  atomic_uint count;       /* how many, from the first on */
  uint32_t odds;           /* not 0: instead one in so many, at random */
  _Atomic uint64_t random; /* state of the random numbers */
  /* what has happened */
  atomic_uint asked;         /* allocations that were counted */
  atomic_uint refused;       /* those that have failed */
  const void *block;         /* Lua's last one that has failed: it collects, then tries again, */
  size_t old_size, new_size; /* and that fails, too, without being counted */
} Memory;

/* Whose failures apply to malloc in this thread; NULL: memory_elsewhere, and if that is NULL, none. */
extern _Thread_local Memory *memory_here;
extern Memory *_Atomic memory_elsewhere;

/* Begins an attempt in which no allocation fails (first = 0), or `count` from the first on. It is not armed yet. */
void memory_start(Memory *m, uint32_t first, uint32_t count);

/* The allocator of a state; `ud` is its Memory, or begins with it. Only allocations that make a block larger fail, since
   Lua relies on shrinking. Blocks always move, so that the address sanitizer finds pointers to their old places. */
void *memory_allocate(void *ud, void *block, size_t old_size, size_t new_size);

/* The Memory of a state. */
Memory *memory_of(lua_State *L);

/* Makes a state with Lua's libraries, in which `require` finds these modules, and loads files by memory_load. */
lua_State *memory_open(Memory *m, const luaL_Reg *modules);

/* As luaL_loadfile, but the process compiles a file once only: most of an attempt's time would be spent on that. For one
   thread at a time. */
int memory_load(lua_State *L, const char *file);

/* Collects all garbage before each n-th instruction of Lua, also in coroutines that are made from now on. With 0: no
   longer. */
void memory_collect(lua_State *L, int n);

/* Closes a state, and dies if not all of its memory is free then. */
void memory_close(lua_State *L);

/* Runs attempt(data) with the allocation k failing, and the `count` - 1 after it, for k = 1, 2, 3 and so on, until none
   has failed, or k exceeds `most`. From k = *far on, which the attempt may change, some are left out. The attempt arms
   `m`, and closes the state that it has opened with it. Returns the number of attempts. */
uint32_t memory_each(Memory *m, uint32_t count, const uint32_t *far, uint32_t most, void (*attempt)(void *),
                     void *data);

/* ---- reports ---- */

/* Ends the program unless it is called again within these seconds of an idle machine (patience.h); 0: no limit. */
void memory_limit(unsigned seconds);

/* Says what runs now; which allocations of `m` fail, is added. Sets its limit. */
void memory_now(const Memory *m, unsigned seconds, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Prints what runs and what is wrong with it, and ends the program. */
_Noreturn void memory_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Dies with an error of Lua on the stack, if there is one. */
void memory_must(lua_State *L, int status);

/* Keeps what is written to stderr from now on, so that memory_captured returns it; until memory_release. */
void memory_capture(void);
const char *memory_captured(void);
void memory_release(void);

#endif
