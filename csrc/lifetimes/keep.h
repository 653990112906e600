/* keep.h: keeps alive what go blocks wait on.

   A parked operation has its channel, and an alts its block of waiters, on the stack of its coroutine. When the program
   closes that coroutine, Lua cuts the stack and runs the `__close` of the go block's variables before it calls the
   scheduler's guard. Meanwhile the collector must not free what is still linked in queues.

   So the scheduler keeps a list of these channels and blocks of waiters. An entry is added when a go block parks with
   it for the first time; a flag in it says that it is kept, and later parks only test that flag. Entries that are not
   needed any more are dropped, a few at a time: before others are added once the list has grown, and in each cycle of
   the collector. A weak root (root.h) keeps what it waits on itself, in its user value GO_WAITS.

   The result channel of a go block needs no entry while the go block is a strong root, which the scheduler keeps alive:
   when it ends, nobody waits on the channel any more. But the end of a simulation drops go blocks that have not ended,
   so result channels that are made in a simulation are like other channels. */
#ifndef RUNNEL_KEEP_H
#define RUNNEL_KEEP_H

#include "core/state.h"

/* Adds the channel, or block of waiters, at index `at` of L to the list. Raises if memory runs out; runs no user
   code. */
void keep_add(lua_State *L, Sched *S, int at);

/* Makes sure that a channel, at index `at`, is in the list. */
static inline void keep_list(lua_State *L, Chan *ch, int at) {
  if (ch->flags & CHAN_LISTED) return;
  keep_add(L, ch->sched, at);
  ch->flags |= CHAN_LISTED | CHAN_KEPT;
}

/* Makes sure that a channel, at index `at`, is kept. */
static inline void keep_channel(lua_State *L, Chan *ch, int at) {
  if (UNLIKELY(!(ch->flags & CHAN_KEPT))) keep_list(L, ch, at);
}

/* The flag with which the result channel of a new go block is kept, a strong root. */
static inline uint32_t keep_result(const Sched *S) { return S->world.outer ? 0 : CHAN_KEPT; }

/* To be called when the go block whose result channel is at index `at` is about to become a weak root: the channel is
   then kept as any other. Raises if memory runs out; runs no user code. */
static inline void keep_weak_result(lua_State *L, Chan *ch, int at) {
  if (ch->waiting[TAKES]) keep_list(L, ch, at);
  else if (!(ch->flags & CHAN_LISTED)) ch->flags &= ~(uint32_t)CHAN_KEPT;
}

/* Makes sure that a block of waiters, at index `at`, is in the list. */
static inline void keep_block(lua_State *L, Sched *S, Waiter *block, int at) {
  if (LIKELY(block->is_kept)) return;
  keep_add(L, S, at);
  block->is_kept = true;
}

/* Checks the next `n` entries and drops those that are not needed. Neither allocates nor raises. */
void keep_trim(lua_State *L, Sched *S, uint32_t n);

/* To be called before as many as `n` entries are added for an operation that is about to wait: once the list has grown,
   checks two for each. Not between them, since an entry does not count as needed before its waiter is enqueued. */
static inline void keep_make_room(lua_State *L, Sched *S, uint32_t n) {
  if (UNLIKELY(S->kept.size >= S->kept.limit)) keep_trim(L, S, 2 * n);
}

/* Moves the list to a smaller table if it has become much shorter. May raise, and then nothing has changed. */
void keep_shrink(lua_State *L, Sched *S);

/* Sets up the list; the scheduler's userdata is at SCHED_SELF. */
void keep_open(lua_State *L);

#endif
