/* keep.h: keeps alive what go blocks wait on.

   A parked operation has its channel, and an alts its block of waiters, on the stack of its coroutine. When somebody
   closes that coroutine, Lua cuts the stack and runs the `__close` of the go block's variables before it calls the
   scheduler's guard. Meanwhile the collector must not free what is still linked in queues.

   So the scheduler keeps a list of these channels and blocks of waiters. An entry is added when a go block parks with
   it for the first time; a flag in it says that it is in the list, and later parks only test that flag. Entries that
   are not needed any more are dropped, a few at a time: by each park once the list has grown, and in each cycle of the
   collector. A weak root (root.h) keeps what it waits on itself, in its user value GO_WAITS. */
#ifndef RUNNEL_KEEP_H
#define RUNNEL_KEEP_H

#include "core/state.h"

/* Adds the channel, or block of waiters, at index `at` of L to the list. Raises if memory runs out; runs no user
   code. */
void keep_add(lua_State *L, Sched *S, int at);

/* Makes sure that a channel, at index `at`, is in the list. */
static inline void keep_channel(lua_State *L, Chan *ch, int at) {
  if (LIKELY(ch->flags & CHAN_KEPT)) return;
  keep_add(L, ch->sched, at);
  ch->flags |= CHAN_KEPT;
}

/* Makes sure that a block of waiters, at index `at`, is in the list. */
static inline void keep_block(lua_State *L, Sched *S, Waiter *block, int at) {
  if (LIKELY(block->is_kept)) return;
  keep_add(L, S, at);
  block->is_kept = true;
}

/* Checks the next `n` entries and drops those that are not needed. Neither allocates nor raises. */
void keep_trim(lua_State *L, Sched *S, uint32_t n);

/* The same when an alt with so many waiters parks and the list has grown to its limit. To be called when the waiters
   have been enqueued: before that what they wait on does not count as needed. */
void keep_trim_grown(lua_State *L, Sched *S, uint32_t waiters);

/* The same in a cycle of the collector, for a share of all entries. */
void keep_trim_cycle(lua_State *L, Sched *S);

/* Sets up the list; the scheduler's userdata is at SCHED_SELF. */
void keep_open(lua_State *L);

#endif
