/* lua/moving.h: letting other go blocks run, for the operations with which the library moves values. */
#ifndef RUNNEL_LUA_MOVING_H
#define RUNNEL_LUA_MOVING_H

#include "blocks/park.h"

/* Values that are moved before other go blocks run. That takes a few tens of microseconds. */
enum { MOVES = 128 };

/* Whether other go blocks must run before an operation: never outside a go block. Each operation is a continuation, and
   its own: once it continues (`status` is not LUA_OK), they have run. */
static inline bool moving_is_turn_over(lua_State *L, Sched *S, int status, lua_KContext alt) {
  if (status != LUA_OK) {
    park_resumed(L, (Alt *)alt);
    S->world.moves = 0;
    return false;
  }
  return UNLIKELY(S->world.moves >= MOVES) && S->current;
}

/* Whether operations on the channel run no user's code and pack no values. Then they raise only if memory runs out or the
   go block is cancelled. */
static inline bool moving_is_plain(const Chan *ch) { return !(ch->flags & (CHAN_RESULT | CHAN_SPECIAL)); }

/* Lets the other ready go blocks run; then `k` does the operation. */
static inline int moving_let_others_run(lua_State *L, Sched *S, const Operation *op, lua_KFunction k) {
  S->world.moves = 0;
  return park_yield(L, S, op, k);
}

/* Parks in one operation on the channel at index `at`; `k` as of park_wait. */
static inline int moving_park(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  ch->sched->world.moves = 0;
  return park_on(L, ch, at, op, k);
}

#endif
