/* root_shrink.h: makes the tables smaller that grow with the number of go blocks: those of their slots (root.h) and the
   list of what they wait on (keep.h).

   Lua makes tables larger, but not smaller, and the collector visits all of a table's slots in each of its cycles. After
   a moment with 100,000 go blocks, a program that starts one after the other would take more than twice as long for
   each. So once less than a quarter of a table has been in use for a whole lap, what is in it moves to a new one.

   Go blocks get other slots then. Nobody may be visiting the slots meanwhile, so only the loop does it, between two go
   blocks. A visit that goes on between go blocks compares Roots.moves. */
#ifndef RUNNEL_ROOT_SHRINK_H
#define RUNNEL_ROOT_SHRINK_H

#include "core/state.h"

enum { ROOT_SHRINK_LEAST = 4096 }; /* smaller tables stay as they are */

/* Whether a table is too large for so many entries. */
static inline bool root_has_too_much_room(const TableUse *use, uint32_t used) {
  return UNLIKELY(use->room >= ROOT_SHRINK_LEAST) && used < use->room / 4;
}

/* Notes that so many entries of a table are in use. */
static inline void root_note_use(TableUse *use, uint32_t used) {
  if (used > use->most) use->most = used;
  if (used > use->room) use->room = used;
}

/* Notes that a lap over a table begins, with so many entries in use. */
static inline void root_note_lap(TableUse *use, uint32_t used) {
  use->sparse = root_has_too_much_room(use, use->most);
  use->most = used;
}

/* Makes the tables smaller that are too large. If there is no memory for that, they stay as they are. Does not raise. */
void root_shrink_now(lua_State *L, Sched *S);

/* The same, inline as long as none is too large. */
static inline void root_shrink(lua_State *L, Sched *S) {
  if (UNLIKELY(S->roots.use.sparse || S->kept.use.sparse)) root_shrink_now(L, S);
}

/* Sets up what root_shrink_now needs; the scheduler's userdata is at SCHED_SELF. */
void root_shrink_open(lua_State *L);

#endif
