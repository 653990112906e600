/* root_table.h: the scheduler's two tables of go blocks: strong roots and weak roots (root.h). */
#ifndef RUNNEL_ROOT_TABLE_H
#define RUNNEL_ROOT_TABLE_H

#include "core/state.h"

/* The key of the sentinel in SCHED_WEAK (root.c); roots have the keys from 1 on. */
enum { ROOT_SENTINEL = 0 };

/* Adds the go block at index `at` to the strong roots. May raise, and then nothing has changed; but not after
   root_remove_weak. Runs no user code. */
void root_add_strong(lua_State *L, Sched *S, Go *go, int at);

/* Pushes the userdata of a strong root. */
void root_push(lua_State *L, const Go *go);

/* Removes a strong root. Pushes the table of strong roots, which would take time to pop, and the userdata. */
void root_remove(lua_State *L, Sched *S, Go *go);

/* Makes the strong root at index `at` a weak root. May raise, and then nothing has changed. Runs no user code. */
void root_move_to_weak(lua_State *L, Sched *S, Go *go, int at);

/* Pushes the userdata of a weak root and returns true; or pushes nothing if Lua has cleared the reference. */
bool root_push_weak(lua_State *L, const Go *go);

/* Removes an entry of the weak roots. May raise if the entry was cleared. */
void root_remove_weak(lua_State *L, Sched *S, uint32_t i);

/* ---- walks ---- */

/* The number of roots of both kinds, including weak ones that have been collected. */
static inline uint32_t root_count(const Sched *S) { return S->roots.strong + S->roots.weak; }

/* Pushes the userdata of root `i`, from 1 to root_count, and returns it; or nil if it was collected. For walks that
   allocate nothing: a finalizer may change these numbers. */
Go *root_push_at(lua_State *L, uint32_t i);

/* For other walks: pushes a weak list of the present roots, and returns how many they are. May raise. */
uint32_t root_push_list(lua_State *L);

/* Pushes an entry of that list and returns it; or NULL if the go block has ended or was collected. */
Go *root_push_listed(lua_State *L, int list, uint32_t i);

/* ---- their size ---- */

enum { ROOT_SHRINK_LEAST = 4096 }; /* smaller tables do not shrink */

/* The room that a table of `n` entries needs: less than its present room only if it is much too large. Lua makes tables
   larger, but not smaller, and the collector visits all of a table in each cycle. After a moment with 100,000 go
   blocks, a program that starts one after the other would take more than twice as long for each. */
static inline uint32_t root_room(uint32_t n, uint32_t room) {
  return room >= ROOT_SHRINK_LEAST && n < room / 4 ? 2 * n + ROOT_SHRINK_LEAST / 4 : room;
}

/* Moves the first `n` entries, and the sentinel, from the table in the scheduler's user value `from` to the table at
   index `to`, which has room for them and replaces it. Allocates nothing. */
void root_move_entries(lua_State *L, int from, int to, uint32_t n);

/* Shrinks tables of roots that are much too large. May raise, and then nothing has changed. */
void root_shrink(lua_State *L, Sched *S);

/* Sets up the tables; the scheduler's userdata is at SCHED_SELF. */
void root_table_open(lua_State *L);

#endif
