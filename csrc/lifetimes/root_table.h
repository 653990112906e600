/* root_table.h: the two tables of the scheduler in which go blocks are found: strong roots and weak ones (root.h). */
#ifndef RUNNEL_ROOT_TABLE_H
#define RUNNEL_ROOT_TABLE_H

#include "core/state.h"

/* The key of the sentinel in SCHED_WEAK (root.c), whose roots are numbered from 1. */
enum { ROOT_SENTINEL = 0 };

/* Adds the go block at index `at` to the strong roots. May raise, and then nothing has changed; not for one that has
   just been removed from the weak roots. Runs no user code. */
void root_add_strong(lua_State *L, Sched *S, Go *go, int at);

/* Pushes the userdata of a strong root. */
void root_push(lua_State *L, const Go *go);

/* Removes a strong root. Pushes two values: the table of strong roots, which it has used and which would take time to
   remove, and the userdata. */
void root_remove(lua_State *L, Sched *S, Go *go);

/* Moves the strong root at index `at` to the weak ones. May raise, and then nothing has changed. Runs no user code. */
void root_move_to_weak(lua_State *L, Sched *S, Go *go, int at);

/* Pushes the userdata of a weak root and returns true; or, if the reference to it was cleared, pushes nothing. */
bool root_push_weak(lua_State *L, const Go *go);

/* Removes an entry of the weak roots. May raise if it was cleared. */
void root_remove_weak(lua_State *L, Sched *S, uint32_t i);

/* ---- walks ---- */

/* The number of roots of both kinds, including weak ones that have been collected. */
static inline uint32_t root_count(const Sched *S) { return S->roots.strong + S->roots.weak; }

/* Pushes the userdata of the root with this number, from 1 to root_count, and returns it; or nil if it was collected.
   For walks that allocate nothing: an allocation may run finalizers, and then others have these numbers. */
Go *root_push_at(lua_State *L, uint32_t i);

/* For any other walk: pushes a list of the roots as they are now, which refers to them weakly, and returns how many
   they are. May raise. */
uint32_t root_push_list(lua_State *L);

/* Pushes an entry of that list, and returns it; or NULL if that go block has ended since or was collected. */
Go *root_push_listed(lua_State *L, int list, uint32_t i);

/* ---- their size ---- */

enum { ROOT_SHRINK_LEAST = 4096 }; /* smaller tables stay as they are */

/* The room for the entries of a table, of which there are `n`: less than its present one only if it is much too large.
   Lua makes a table larger, but not smaller, and the collector visits all of it in each cycle. After a moment with
   100,000 go blocks, a program that starts one after the other would take more than twice as long for each. */
static inline uint32_t root_room(uint32_t n, uint32_t room) {
  return room >= ROOT_SHRINK_LEAST && n < room / 4 ? 2 * n + ROOT_SHRINK_LEAST / 4 : room;
}

/* Moves the first `n` entries, and the sentinel, of the table in the scheduler's user value `from` to the table at
   index `to`, which has room for them and takes its place. Allocates nothing. */
void root_move_entries(lua_State *L, int from, int to, uint32_t n);

/* Makes the tables of roots smaller if they are much too large. May raise, and then nothing has changed. */
void root_shrink(lua_State *L, Sched *S);

/* Sets up the tables; the scheduler's userdata is at SCHED_SELF. */
void root_table_open(lua_State *L);

#endif
