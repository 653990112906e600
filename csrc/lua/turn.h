/* lua/turn.h: turns: after TURN operations that did not wait, an operation first lets the other go blocks, timers and the
   driver have their turn. Otherwise a loop over operations that complete at once for ever, as takes from a closed
   channel, would stop the whole program.

   An operation counts if it may complete at once any number of times: not the put and the take of an open channel
   without a buffer, so these cost nothing. The turn comes before the operation, which has done nothing until then. Where
   the caller cannot park (park.h), there is no turn. Nor where the library's own Lua code calls an operation: it relies on
   polls and the like not to let others run in the middle of a change. */
#ifndef RUNNEL_LUA_TURN_H
#define RUNNEL_LUA_TURN_H

#include "blocks/park.h"

/* Operations that did not wait, or values that the library moves, before the others have their turn. */
enum { TURN = 128 };

/* ---- operations of the program ---- */

/* Has the turn that is due, before an operation on `ch`, or NULL. A go block that can park yields here, and then its C
   function is called again with the same arguments: it must not have changed them. Raises if the go block was cancelled
   and the operation would have no effect. Returns otherwise, after it has run the others if that is possible. */
void turn_have(lua_State *L, Sched *S, const Chan *ch, const Operation *op);

/* Counts an operation on `ch` that is about to begin. */
static inline void turn_count(lua_State *L, Chan *ch, const Operation *op) {
  OBSERVE(ch->sched, look, ch, LOOK_CHANNEL);
  if (UNLIKELY(++ch->sched->moves > TURN)) turn_have(L, ch->sched, ch, op);
}

/* Whether each put and each take of the channel counts. */
static inline bool turn_counts(const Chan *ch) {
  return UNLIKELY(ch->flags & (CHAN_CLOSED | CHAN_SPECIAL | CHAN_ENDLESS));
}

/* Counts a poll or an offer in vain. Raises after PARK_VAIN of them, if nothing can run that would help; or if other go
   blocks could, but this place is one where they cannot have their turn. `cure` says what to do. */
void turn_in_vain(lua_State *L, Sched *S, const Operation *op, const char *cure);

/* Between two parts of a long answer, such as that of rn.ps. Outside any go block: runs those that are ready. Returns
   whether the caller is a go block that can let the others run, by park_yield. Where neither is possible, as in a
   callback, there is no turn. */
bool turn_between(lua_State *L, Sched *S);

/* ---- operations of the library's own go blocks, which move values ---- */

/* Counts a value that is moved. Returns whether the others must run now: never outside a go block. */
static inline bool moving_is_turn_over(Sched *S) { return UNLIKELY(++S->moves >= TURN) && S->current; }

/* For a C function that moves a value and is its own continuation: (status, alt) are its arguments, LUA_OK at the first
   call. Returns whether it must first let other go blocks run, by park_yield: before it has moved anything, so that a
   cancelled go block loses no value. Raises the cancellation. */
static inline bool moving_must_yield(lua_State *L, Sched *S, int status, lua_KContext alt) {
  if (status == LUA_OK) return moving_is_turn_over(S);
  park_resumed(L, (Alt *)alt);
  return false;
}

#endif
