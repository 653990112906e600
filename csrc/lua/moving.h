/* lua/moving.h: letting other go blocks run, for the operations with which the library moves values. */
#ifndef RUNNEL_LUA_MOVING_H
#define RUNNEL_LUA_MOVING_H

#include "blocks/park.h"

/* Values that a go block moves before others run. That takes a few tens of microseconds. */
enum { MOVES = 128 };

/* Whether other go blocks must run before the next operation (park_yield). Never outside a go block. */
static inline bool moving_is_turn_over(const Sched *S) { return UNLIKELY(S->world.moves >= MOVES) && S->current; }

/* Whether operations on the channel run no user's code and pack no values. Then they raise only if memory runs out or the
   go block is cancelled. */
static inline bool moving_is_plain(const Chan *ch) { return !(ch->flags & (CHAN_RESULT | CHAN_SPECIAL)); }

#endif
