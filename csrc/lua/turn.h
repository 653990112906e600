/* lua/turn.h: lets other go blocks run while the library's go blocks move values. Otherwise a pipe between two large
   buffers would delay timers, and a pipe from a channel to itself would block everything else forever. */
#ifndef RUNNEL_LUA_TURN_H
#define RUNNEL_LUA_TURN_H

#include "blocks/park.h"

/* Values that a go block moves before the others run. That takes a few tens of microseconds. */
enum { MOVES = 128 };

/* Counts a value that is moved. Returns whether the others must run now: never outside a go block. */
static inline bool moving_is_turn_over(Sched *S) { return UNLIKELY(++S->moves >= MOVES) && S->current; }

/* For a C function that moves a value and is its own continuation: (status, alt) are its arguments, LUA_OK at the first
   call. Returns whether it must first let other go blocks run, by park_yield: before it has moved anything, so that a
   cancelled go block loses no value. Raises the cancellation. */
static inline bool moving_must_yield(lua_State *L, Sched *S, int status, lua_KContext alt) {
  if (status == LUA_OK) return moving_is_turn_over(S);
  park_resumed(L, (Alt *)alt);
  return false;
}

#endif
