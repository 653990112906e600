/* keep.h: keeps alive what go blocks wait on.

   A parked operation has its channel, and an alts its block of waiters, on the stack of its coroutine. While somebody closes
   that coroutine, Lua has cut the stack already, but code of the user's runs, the `__close` of variables, before we hear of
   it: the collector must not free then what is still linked in queues.

   So the scheduler keeps each channel, and each block, from the first time that a go block parks with it, in a list; a flag
   says that it is there, which is all that later parks have to look at. Now and then, and at every pass over the go blocks
   (anchor.h), the list is trimmed to what is still needed. A go block that was handed over to its channels keeps itself
   what it waits on, in its user value GO_WAITS. */
#ifndef RUNNEL_KEEP_H
#define RUNNEL_KEEP_H

#include "sched.h"

/* Adds the channel, or block of waiters, at index `at` of L to the list. Raises where memory runs out, and runs no code of
   the user's. */
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

/* Trims the list to what is needed. Neither allocates nor raises. */
void keep_trim(Sched *S);

/* Sets up the list; the scheduler's userdata is at SCHED_SELF. */
void keep_open(lua_State *L);

#endif
