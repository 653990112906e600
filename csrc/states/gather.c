/* gather.c: see gather.h. */
#include "states/gather.h"

#include "channels/chan.h"
#include "states/shared_wait.h"

const Operation gather_for_turn = {.name = "take", .waiter = WAITER_UNCOUNTED};

/* The mark of an alt that waits: its address only is used. */
static const SharedWait waiting;

void gather_begin(Alt *alt) { alt->shared = (SharedWait *)&waiting; }

bool gather_is_waiting(const Alt *alt) { return alt->shared == &waiting; }

Turn *gather_push_turn(lua_State *L, Sched *S) {
  Turn *turn = (Turn *)(void *)chan_new(L, S, sizeof *turn, CHAN_ATTRS);
  turn->chan.flags = CHAN_KEPT; /* by the go blocks of its queue, which have it in what they feed */
  turn->holder = NULL;
  chan_hide(&turn->chan);
  if (!S->others) S->others = &shared_wait_others;
  return turn;
}

bool gather_claim(lua_State *L, Sched *S, Alt *alt) {
  Turn *turn = (Turn *)lua_touserdata(alt->co, GATHER_TURN);
  const Chan *output = (const Chan *)lua_touserdata(alt->co, GATHER_OUTPUT);
  OBSERVE(S, look, &turn->chan, LOOK_CHANNEL);
  alt->shared = NULL;
  if (LIKELY(!turn->holder) && !chan_is_closed(output)) {
    turn->holder = sched_go(alt);
    return true;
  }
  alt_commit(L, S, alt);
  if (turn->holder) alt_enqueue_single(&turn->chan, alt, GATHER_TURN, &gather_for_turn);
  else alt_wake(S, alt, 0);
  return false;
}

void gather_release(lua_State *L, Sched *S, Turn *turn) {
  OBSERVE(S, look, &turn->chan, LOOK_CHANNEL);
  const Waiter *w = chan_first_waiter(L, &turn->chan, TAKES);
  turn->holder = w ? sched_go(w->alt) : NULL;
  if (w) alt_complete(L, S, w->alt, 0);
}
