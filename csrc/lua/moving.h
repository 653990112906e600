/* lua/moving.h: how the library's go blocks that move values let the others run. Otherwise a pipe between two large
   buffers would delay timers, and a pipe from a channel to itself would stop everything else for ever. */
#ifndef RUNNEL_LUA_MOVING_H
#define RUNNEL_LUA_MOVING_H

#include "blocks/park.h"

/* Values that a go block moves before the others run. That takes a few tens of microseconds. */
enum { MOVES = 128 };

/* Counts a value that was moved. Returns whether the others must run now: never outside a go block. */
static inline bool moving_is_turn_over(Sched *S) { return UNLIKELY(++S->moves >= MOVES) && S->current; }

/* Called before an operation: if the go block was cancelled, and so could not let the others run after the last one, it
   gets the error now, when no value can be lost. */
static inline void moving_begin(lua_State *L, Sched *S, const Operation *op) {
  if (UNLIKELY(S->moves >= MOVES) && S->current) (void)park_begin(L, S, op);
}

/* Counts a value and returns the `n` results of the operation that has moved it, which are on top of L; lets the others
   run first if they must. A go block that is cancelled meanwhile keeps the results. Must be the last thing that a C
   function does, as park_wait. */
static inline int moving_return(lua_State *L, Sched *S, const Operation *op, int n) {
  return moving_is_turn_over(S) ? park_yield(L, S, op, n, NULL) : n;
}

#endif
