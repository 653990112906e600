/* lua/moving.c: core.internal.moving: how the library starts its own go blocks (those of pipes, pipelines, mults and so
   on), and the operations with which they move values. put, take and alts differ from the public ones in two points:

   Any number of them may wait on a channel, since a value that the library has taken must not be lost when the limit of
   waiting operations is reached.

   After MOVES values without a wait they let the other go blocks run. Otherwise a pipe between two large buffers would
   delay timers, and a pipe from a channel to itself would stop everything else for ever. Moves are counted per World,
   so that a simulation is reproducible. */
#include "lua/moving.h"
#include "blocks/go.h"
#include "channels/alt.h"
#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "sharing/chan_shared.h"

static const Operation TAKE = {.name = "take", .waiter = WAITER_FREE};
static const Operation POLL = {.name = "poll", .waiter = WAITER_FREE};
static const Operation PUT = {.name = "put", .is_put = true, .waiter = WAITER_FREE};
static const Operation PUT_WHILE_OPEN = {.name = "put", .is_put = true, .waiter = WAITER_FREE | WAITER_GIVES_UP};
static const Operation YIELD = {.name = "yield"};

/* ---- take, poll, put ---- */

static int take(lua_State *L, int status, lua_KContext alt) {
  Chan *ch = check_chan(L, 1, "take", "take(ch)");
  Sched *S = ch->sched;
  if (moving_is_turn_over(L, S, status, alt)) return moving_let_others_run(L, S, &TAKE, take);
  if (UNLIKELY(chan_is_shared(ch))) return park_shared(L, ch, 1, &TAKE, NULL);
  int n = chan_take(L, ch, 1);
  if (n == TAKE_WAIT) return moving_park(L, ch, 1, &TAKE, NULL);
  S->world.moves++;
  return n;
}

/* take(ch) -> v | nil | nil, err */
static int moving_take(lua_State *L) { return take(L, LUA_OK, 0); }

static int poll(lua_State *L, int status, lua_KContext alt) {
  Chan *ch = check_chan(L, 1, "poll", "poll(ch, to)");
  const Chan *to = check_chan(L, 2, "poll", "poll(ch, to)");
  Sched *S = ch->sched;
  if (moving_is_turn_over(L, S, status, alt)) return moving_let_others_run(L, S, &POLL, poll);
  bool is_closed = chan_is_closed(to);
  int n = is_closed ? TAKE_WAIT : chan_take(L, ch, 1);
  S->world.moves++;
  if (n != TAKE_WAIT) return n;
  lua_pushnil(L);
  return 1;
}

/* poll(ch, to) -> v | nil | nil, err: does not wait for a value, but may let other go blocks run first. `to` is the
   channel that the value is for: if it is closed, nothing is taken and the result is nil. */
static int moving_poll(lua_State *L) { return poll(L, LUA_OK, 0); }

/* `k`: the operation, as a continuation. */
static ALWAYS_INLINE int put_by(lua_State *L, int status, lua_KContext alt, const Operation *op, lua_KFunction k) {
  Chan *ch = check_chan(L, 1, "put", "put(ch, v)");
  Sched *S = ch->sched;
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "a value other than nil expected");
  if (moving_is_turn_over(L, S, status, alt)) return moving_let_others_run(L, S, op, k);
  if (UNLIKELY(chan_is_shared(ch))) return park_shared(L, ch, 1, op, NULL);
  PutResult result = chan_put(L, ch, 1, 2);
  if (result == PUT_WAIT) return moving_park(L, ch, 1, op, NULL);
  S->world.moves++;
  lua_pushboolean(L, result == PUT_DONE);
  return 1;
}

static int put(lua_State *L, int status, lua_KContext alt) { return put_by(L, status, alt, &PUT, put); }

/* put(ch, v) -> true | false */
static int moving_put(lua_State *L) { return put(L, LUA_OK, 0); }

static int put_while_open(lua_State *L, int status, lua_KContext alt) {
  return put_by(L, status, alt, &PUT_WHILE_OPEN, put_while_open);
}

/* put_while_open(ch, v) -> true | false: false also when the channel closes while the put waits. */
static int moving_put_while_open(lua_State *L) { return put_while_open(L, LUA_OK, 0); }

/* ---- put_each, turn ---- */

/* Returns from an operation that ends by letting the others run. */
static int others_have_run(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  return 0;
}

/* put_each(chs, v, i) -> j | nil: puts v on the channels of a list, from the i-th on, until one would have to wait, or
   needs a put of its own: it is closed, or a put on it may run Lua code or allocate. j is the number of that one. If all
   have got v, and the last is full then, lets the other go blocks run: before takers have, there is no room for a next
   value. Raises nothing, until then, but that an argument is wrong, before it puts. */
static int moving_put_each(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "a value other than nil expected");
  const Chan *last = NULL;
  for (lua_Integer i = luaL_checkinteger(L, 3);; i++) {
    lua_settop(L, 3);
    int type = lua_rawgeti(L, 1, i);
    Chan *ch = chan_to(L, 4);
    if (type == LUA_TNIL) break;
    if (!ch || !chan_put_is_plain(ch) || chan_put(L, ch, 4, 2) != PUT_DONE) {
      lua_pushinteger(L, i);
      return 1;
    }
    ch->sched->world.moves++;
    last = ch;
  }
  if (!last || !chan_is_full(last)) return 0;
  return moving_let_others_run(L, last->sched, &YIELD, others_have_run);
}

/* turn(): lets the other go blocks run if it is time. For go blocks that move values by alts, which does not do so
   itself: several go blocks may share a table of operations, so nothing else may run between filling it and the
   alts. */
static int moving_turn(lua_State *L) {
  Sched *S = sched_self(L);
  return moving_is_turn_over(L, S, LUA_OK, 0) ? moving_let_others_run(L, S, &YIELD, others_have_run) : 0;
}

/* ---- starting ---- */

/* go(give_up, fed, f, ...) -> result channel. If the go block dies, give_up(fed, reason, its result channel,
   is_reported) is called, which must not wait. */
static int moving_go(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  check_callable(L, 3, "go");
  go_spawn_feeding(L, sched_self(L), lua_gettop(L) - 3);
  return 1;
}

/* is_cancelled(err) -> whether err is what the running go block was cancelled with */
static int moving_is_cancelled(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_settop(L, 1);
  if (!S->current) return 0;
  root_push(L, S->current);
  lua_pushboolean(L, go_is_cancellation(L, 2, 1));
  return 1;
}

void lua_moving_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"go", moving_go},     {"take", moving_take},         {"poll", moving_poll},
      {"put", moving_put},   {"put_each", moving_put_each}, {"put_while_open", moving_put_while_open},
      {"turn", moving_turn}, {"alts", module_moving_alts},  {"is_cancelled", moving_is_cancelled},
      {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "moving");
}
