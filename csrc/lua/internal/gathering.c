/* gathering.c: core.internal.gathering: what the go blocks of a merge or a mix do, one for each input (states/gather.h). */
#include "states/gather.h"

#include "blocks/park.h"
#include "lifetimes/keep.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/turn.h"

enum { AT_DONE = GATHER_OUTPUT + 1, AT_VALUE }; /* the rest of the stack */

static const Operation TAKE = {.name = "take", .waiter = WAITER_UNCOUNTED};

/* turn() -> a turn, which nobody has */
static int gather_turn(lua_State *L) {
  gather_push_turn(L, sched_self(L));
  return 1;
}

static Turn *check_turn(lua_State *L, int at) {
  Chan *ch = check_chan(L, at, "gather", "gather(ch, turn, out, done)");
  luaL_argcheck(L, lua_rawlen(L, at) == sizeof(Turn), at, "a turn expected");
  return (Turn *)(void *)ch;
}

/* Lets the next go block have the turn, if the running one has it. */
static void release(lua_State *L, Sched *S, Turn *turn) {
  if (turn->holder == S->current) gather_release(L, S, turn);
}

/* release(turn): does that. */
static int gather_give(lua_State *L) {
  release(L, sched_self(L), check_turn(L, 1));
  return 0;
}

/* Whether a take would complete at once. May ask a policy, and so raise. */
static bool can_take(lua_State *L, Chan *in) {
  const ChanOps *ops = chan_ops(in);
  return ops ? ops->can(L, in, GATHER_INPUT, false) : chan_can(in, false);
}

/* Of the results on top of L, of a take that has got nil: (nil, true, the error of the close or nil). */
static int ended(lua_State *L, int n) {
  if (n < 2) lua_pushnil(L);
  lua_pushboolean(L, 1);
  lua_insert(L, -2);
  return 3;
}

static int resumed(lua_State *L, int status, lua_KContext alt);

/* Waits until the running go block has the turn. */
static int wait_for_turn(lua_State *L, Turn *turn) {
  return park_on(L, &turn->chan, GATHER_TURN, &gather_for_turn, resumed);
}

/* Waits for the input. A take on a shared channel cannot ask for the turn: there a value may come without it. */
static int wait_for_input(lua_State *L, Sched *S, Chan *in) {
  if (chan_is_shared(in)) return park_on(L, in, GATHER_INPUT, &TAKE, resumed);
  Alt *alt = park_begin(L, S, &TAKE);
  keep_make_room(L, S, 1);
  keep_channel(L, in, GATHER_INPUT);
  alt_enqueue_single(in, alt, GATHER_INPUT, &TAKE);
  gather_begin(alt);
  return park_wait(L, S, alt, &TAKE, resumed);
}

static int resumed(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  int n = park_resumed(L, (Alt *)alt);
  Sched *S = sched_self(L);
  Turn *turn = (Turn *)lua_touserdata(L, GATHER_TURN);
  bool has_turn = turn->holder == S->current;
  if (n == 0) return has_turn && lua_gettop(L) == AT_VALUE; /* with the turn: the value that came without it */
  if (!lua_isnil(L, -n)) {
    if (has_turn) return 1;
    if (!turn->holder) {
      turn->holder = S->current;
      return 1;
    }
    lua_settop(L, AT_VALUE);
    return wait_for_turn(L, turn);
  }
  if (lua_gettop(L) > AT_DONE + n) { /* a value that came without the turn must not be lost */
    lua_settop(L, AT_VALUE);
    return wait_for_turn(L, turn);
  }
  if (!has_turn) return 0; /* the take was withdrawn; or a shared channel is closed, as the next call finds */
  gather_release(L, S, turn);
  return ended(L, n);
}

/* gather(ch, turn, out, done) -> value | nil | nil, true, err: waits for a value of ch and for the turn, and returns with
   both. `done`: first gives the turn to the next go block. Nil alone: nothing was taken, and the caller must see whether
   to go on: `out` is closed; the take was withdrawn (internal.withdraw_take); it has the turn; or others had theirs. With
   true: ch has closed, with the error err or nil. */
static int gather(lua_State *L) {
  Chan *in = check_looked(L, GATHER_INPUT, "gather", "gather(ch, turn, out, done)", LOOK_CHANNEL);
  Turn *turn = check_turn(L, GATHER_TURN);
  const Chan *out = check_looked(L, GATHER_OUTPUT, "gather", "gather(ch, turn, out, done)", LOOK_CHANNEL);
  Sched *S = in->sched;
  bool is_done = lua_toboolean(L, AT_DONE);
  lua_settop(L, AT_DONE);
  OBSERVE(S, look, &turn->chan, LOOK_CHANNEL);
  if (is_done) release(L, S, turn);
  if (chan_is_closed(out)) return 0;
  /* The others first, so that one input which always has a value does not keep them from theirs. */
  if (is_done && (moving_is_turn_over(S) || S->world.ready.first) && can_take(L, in)) {
    return park_yield(L, S, &TAKE, NULL);
  }
  if (turn->holder && turn->holder != S->current) {
    return can_take(L, in) ? wait_for_turn(L, turn) : wait_for_input(L, S, in);
  }
  turn->holder = S->current; /* first: a policy may put on another input */
  int n = chan_take(L, in, GATHER_INPUT);
  if (n > 0 && !lua_isnil(L, -n)) return 1;
  gather_release(L, S, turn);
  return n == TAKE_WAIT ? wait_for_input(L, S, in) : ended(L, n);
}

void lua_gathering_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"gather", gather}, {"turn", gather_turn}, {"release", gather_give}, {NULL, NULL}};
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "gathering");
}
