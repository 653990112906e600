/* keep.h: keeps alive what go blocks wait on.

   A parked operation has its channel, and an alts its block of waiters, on the stack of its coroutine. When the program
   closes that coroutine, Lua cuts the stack and runs the `__close` of the go block's variables before it calls the
   guard. Meanwhile the collector must not free what is still linked in queues.

   So the scheduler keeps a list of these channels and blocks. A go block that parks adds its channel, or block, unless
   a flag says that it is kept. Entries that are not needed any more are dropped a few at a time: before others are
   added once the list has grown, and in each cycle of the collector. A weak root (root.h) keeps what it waits on
   itself, in its user value GO_WAITS.

   The result channel of a strong root needs no entry: the scheduler keeps the go block alive, and when it ends, nothing
   waits on the channel any more. But the end of a simulation drops go blocks that have not ended, so result channels
   that are made in a simulation are like other channels. */
#ifndef RUNNEL_KEEP_H
#define RUNNEL_KEEP_H

#include "core/state.h"

/* Adds the channel or block of waiters at index `at` of L. Raises if memory runs out; runs no user code. */
void keep_add(lua_State *L, Sched *S, int at);

/* Adds a channel, at index `at`, unless it is in the list. */
static inline void keep_list(lua_State *L, Chan *ch, int at) {
  if (ch->flags & CHAN_LISTED) return;
  keep_add(L, ch->sched, at);
  ch->flags |= CHAN_LISTED | CHAN_KEPT;
}

/* Makes sure that a channel, at index `at`, is kept alive. */
static inline void keep_channel(lua_State *L, Chan *ch, int at) {
  if (UNLIKELY(!(ch->flags & CHAN_KEPT))) keep_list(L, ch, at);
}

/* The flag of the result channel of a new go block, which is a strong root. */
static inline uint32_t keep_result(const Sched *S) { return S->world.outer ? 0 : CHAN_KEPT; }

/* Adds a block of waiters, at index `at`, unless it is in the list. */
static inline void keep_block(lua_State *L, Sched *S, Waiter *block, int at) {
  if (LIKELY(block->is_kept)) return;
  keep_add(L, S, at);
  block->is_kept = true;
}

/* How many waiters of a queue are checked; a channel with more of them stays in the list. Only the collector's cycles
   check all: one spawn must not pay for thousands of waiters. */
enum { KEEP_QUICK = 8, KEEP_ALL = 1024 };

/* Checks the next `n` entries and drops those that are not needed. Neither allocates nor raises. */
void keep_trim(lua_State *L, Sched *S, uint32_t n, int depth);

/* Called before up to `n` entries are added for an operation: once the list has grown, checks two for each. Not between
   them: an entry counts as needed only when its waiter is enqueued. */
static inline void keep_make_room(lua_State *L, Sched *S, uint32_t n) {
  if (UNLIKELY(S->kept.size >= S->kept.limit)) keep_trim(L, S, 2 * n, KEEP_QUICK);
}

/* Moves a much shorter list to a smaller table. May raise, and then nothing has changed. */
void keep_shrink(lua_State *L, Sched *S);

/* Sets up the list; the scheduler's userdata is at SCHED_SELF. */
void keep_open(lua_State *L);

#endif
