/* gathering.c: core.internal.gathering: takes from many channels, for merge and mix (states/gather.h). */
#include "states/gather.h"

#include "blocks/park.h"
#include "lifetimes/keep.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/turn.h"
#include "states/shared_wait.h"

/* The stack of hold: the gather, the list of channels, then that of an alts. */
enum { HOLD_CHANS = GATHER_AT_HOLDER + 1 };

/* The stack of take. */
enum { CHANS = 1, AT = GATHER_AT_TAKER, CHAN };

static const Operation HOLD = {.name = "alt", .flags = ALT_SELECT | ALT_INDEX, .waiter = WAITER_UNCOUNTED};
static const Operation TAKE = {.name = "take", .waiter = WAITER_UNCOUNTED};

/* The gather at index `i`. */
static Gather *check_gather(lua_State *L, int i) {
  Gather *g = gather_to(L, i);
  if (UNLIKELY(!g)) luaL_typeerror(L, i, "gather");
  return g;
}

/* new(n) -> a gather for n inputs */
static int gathering_new(lua_State *L) {
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n > 0 && n <= INT32_MAX / 4, 1, "a number of inputs expected");
  Sched *S = sched_self(L);
  if (!S->others) S->others = &shared_wait_others;
  gather_push(L, S, (uint32_t)n);
  return 1;
}

/* ---- the holder ---- */

/* The holder's wait has ended: so does a wait of the taker, without a result. */
static int released(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  const Gather *g = (const Gather *)lua_touserdata(L, GATHER_AT_HOLDER);
  const Waiter *taker = chan_first_waiter(g->taker, TAKES);
  if (taker) alt_complete(L, g->taker->sched, taker->alt, 0);
  park_resumed(L, (Alt *)alt);
  return 0;
}

/* hold(g, chs): in a go block of its own: waits for the channels of the list, which are not shared, in place of the go
   block that takes from them. Until finish(g). */
static int gathering_hold(lua_State *L) {
  Gather *g = check_gather(L, GATHER_AT_HOLDER);
  Sched *S = g->taker->sched;
  lua_settop(L, HOLD_CHANS);
  int n = (int)g->n;
  luaL_checkstack(L, 2 * n + LUA_MINSTACK, "too many channels");
  Waiter *waiters = (Waiter *)lua_newuserdatauv(L, (size_t)n * sizeof *waiters, 0); /* at ALT_BLOCK */
  Alt *alt = park_begin(L, S, &HOLD);
  for (int i = 0; i < n; i++) {
    int at = ALT_FIRST_OP + 2 * i;
    lua_rawgeti(L, HOLD_CHANS, i + 1);
    Chan *ch = check_chan(L, at, "hold", "hold(g, chs)");
    luaL_argcheck(L, !chan_is_shared(ch), HOLD_CHANS, "channels that are not shared expected");
    lua_pushnil(L);
    waiters[i] = (Waiter){.chan = ch, .alt = alt, .at = at, .flags = WAITER_UNCOUNTED}; /* in no queue yet */
  }
  keep_make_room(L, S, 1);
  keep_block(L, S, waiters, ALT_BLOCK);
  root_push(L, S->current);
  lua_setiuservalue(L, GATHER_AT_HOLDER, GATHER_HOLDER);
  alt->state = ALT_PARKED;
  alt->flags |= HOLD.flags;
  alt->own.alts.waiters = waiters;
  alt->count = (uint32_t)n;
  gather_hold(g, alt);
  return park_wait(L, S, alt, &HOLD, released);
}

/* finish(g): ends hold. */
static int gathering_finish(lua_State *L) {
  Gather *g = check_gather(L, GATHER_AT_HOLDER);
  if (!gather_is_held(g)) return 0;
  Sched *S = g->taker->sched;
  Alt *alt = &g->holder->alt;
  alt_commit(L, S, alt); /* may fail (root.h) */
  alt->shared = NULL;
  alt_wake(S, alt, 0);
  return 0;
}

/* ---- the taker ---- */

/* Returns the `n` results on top of L, of a take from the current input: value, channel | nil, channel, error. */
static int result(lua_State *L, Gather *g, int n) {
  lua_rawgeti(L, CHANS, g->current);
  if (!lua_isnil(L, -n - 1)) return 2;
  g->current = 0; /* it is closed */
  lua_insert(L, -n);
  return n + 1;
}

/* Puts the waiter of an input, whose channel is at CHAN, into its queue. May raise before. */
static void wait_for(lua_State *L, Gather *g, Chan *ch, uint32_t i) {
  Alt *alt = &g->holder->alt;
  Waiter *w = &alt_waiters(alt)[i - 1];
  if (!(alt->flags & ALT_WEAK)) { /* a weak root keeps them itself */
    keep_make_room(L, ch->sched, 2);
    keep_channel(L, ch, CHAN);
    lua_pushvalue(alt->co, ALT_BLOCK);
    lua_xmove(alt->co, L, 1);
    keep_block(L, ch->sched, alt_waiters(alt), CHAN + 1);
    lua_pop(L, 1);
  }
  alt_enqueue(ch, w, alt, w->at, false, w->flags);
  chan_check(ch);
}

static int take(lua_State *L, int status, lua_KContext alt);

/* Waits until something comes for the holder. */
static int await(lua_State *L, const Gather *g) {
  Sched *S = g->taker->sched;
  lua_getiuservalue(L, AT, GATHER_TAKER);
  Alt *alt = park_begin(L, S, &TAKE);
  keep_make_room(L, S, 1);
  keep_channel(L, g->taker, CHAN);
  alt_enqueue_single(g->taker, alt, CHAN, &TAKE);
  gather_await(alt);
  return park_wait(L, S, alt, &TAKE, take);
}

static int take(lua_State *L, int status, lua_KContext alt) {
  Gather *g = check_gather(L, AT);
  Sched *S = g->taker->sched;
  if (status == LUA_OK && moving_is_turn_over(S)) return park_yield(L, S, &TAKE, take);
  int n = status == LUA_OK ? 0 : park_resumed(L, (Alt *)alt);
  if (n) return result(L, g, n);
  for (;;) {
    lua_settop(L, AT);
    lua_rawgeti(L, CHANS, 1);
    Chan *done = check_chan(L, CHAN, "take", "take(chs, g)");
    if (chan_is_closed(done)) return 0;
    if (!gather_is_held(g)) return park_on(L, done, CHAN, &TAKE, NULL); /* the holder has died, and closes the output */
    lua_pop(L, 1);
    if (g->current) gather_add(g, g->current);
    g->current = 0;
    if (!g->count) return await(L, g);
    uint32_t i = gather_next(g);
    g->current = i; /* so that it is tried again if what follows raises */
    lua_rawgeti(L, CHANS, i);
    Chan *ch = check_looked(L, CHAN, "take", "take(chs, g)", LOOK_CHANNEL);
    n = chan_take(L, ch, CHAN); /* the code of a buffer policy may close the output, which ends the holder */
    if (n != TAKE_WAIT) return result(L, g, n);
    if (!gather_is_held(g)) continue;
    wait_for(L, g, ch, i);
    g->current = 0;
  }
}

/* take(chs, g) -> value, ch | nil, ch, err | nothing: takes from one of the channels; nil: ch is closed, with the error
   err or nil, and nothing more is taken from it. Nothing: the first channel is closed, so nothing is taken. */
static int gathering_take(lua_State *L) { return take(L, LUA_OK, 0); }

/* is_shared(ch) */
static int gathering_is_shared(lua_State *L) {
  lua_pushboolean(L, chan_is_shared(check_chan(L, 1, "is_shared", "is_shared(ch)")));
  return 1;
}

void lua_gathering_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"finish", gathering_finish},       {"hold", gathering_hold},
                                       {"is_shared", gathering_is_shared}, {"new", gathering_new},
                                       {"take", gathering_take},           {NULL, NULL}};
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "gathering");
}
