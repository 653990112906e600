/* moving.c: core.internal.moving: the operations with which the library's own go blocks (those of pipes, pipelines,
   mults and so on) move values. They differ from the public ones in two points: any number of them may wait on a
   channel, since a value that the library has taken must not be lost when the limit of waiting operations is reached;
   and they let the other go blocks run now and then (turn.h). A take does so only if it can complete at once: it parks
   without one if it must wait, so that nothing happens between what its caller has found and its wait. */
#include "blocks/alts.h"
#include "blocks/async.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/turn.h"

static const Operation TAKE = {.name = "take", .waiter = WAITER_UNCOUNTED};
static const Operation NEXT = {.name = "take", .flags = ALT_SELECT | ALT_INDEX, .waiter = WAITER_UNCOUNTED};
static const Operation PUT = {.name = "put", .is_put = true, .waiter = WAITER_UNCOUNTED};
static const Operation PUT_WHILE_OPEN = {.name = "put", .is_put = true, .waiter = WAITER_UNCOUNTED | WAITER_GIVES_UP};
static const Operation YIELD = {.name = "yield"};

/* ---- take, put ---- */

static int take(lua_State *L, int status, lua_KContext alt) {
  Chan *ch = check_looked(L, 1, "take", "take(ch)", LOOK_CHANNEL);
  if (moving_must_yield(L, ch->sched, status, alt) && (turn_counts(ch) || chan_can(ch, false))) {
    return park_yield(L, ch->sched, &TAKE, take);
  }
  int n = chan_take(L, ch, 1);
  return n == TAKE_WAIT ? park_on(L, ch, 1, &TAKE, NULL) : n;
}

/* take(ch) -> v | nil | nil, err */
static int moving_take(lua_State *L) { return take(L, LUA_OK, 0); }

/* is_awaited(ch) -> whether takes wait on it */
static int moving_is_awaited(lua_State *L) {
  const Chan *ch = check_looked(L, 1, "take", "is_awaited(ch)", LOOK_CHANNEL);
  lua_pushboolean(L, ch->waiting[TAKES] > 0);
  return 1;
}

static ALWAYS_INLINE int put(lua_State *L, const Operation *op, int status, lua_KContext alt, lua_KFunction again) {
  Chan *ch = check_looked(L, 1, "put", "put(ch, v)", LOOK_CHANNEL);
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "a value other than nil expected");
  if (moving_must_yield(L, ch->sched, status, alt)) return park_yield(L, ch->sched, op, again);
  PutResult result = chan_put(L, ch, 1, 2);
  if (result == PUT_WAIT) return park_on(L, ch, 1, op, NULL);
  lua_pushboolean(L, result == PUT_DONE);
  return 1;
}

static int put_always(lua_State *L, int status, lua_KContext alt) { return put(L, &PUT, status, alt, put_always); }

/* put(ch, v) -> true | false */
static int moving_put(lua_State *L) { return put_always(L, LUA_OK, 0); }

static int put_while_open(lua_State *L, int status, lua_KContext alt) {
  return put(L, &PUT_WHILE_OPEN, status, alt, put_while_open);
}

/* put_while_open(ch, v) -> true | false: false also if the channel closes while the put waits. */
static int moving_put_while_open(lua_State *L) { return put_while_open(L, LUA_OK, 0); }

/* put_later(ch, v, f) -> true | false (closed already): as ch:put_async, but no program can cancel it. */
static int moving_put_later(lua_State *L) {
  Chan *ch = check_looked(L, 1, "put", "put_later(ch, v, f)", LOOK_CHANNEL);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  lua_pushboolean(L, async_begin(L, ch, true, false, true));
  return 1;
}

/* Whether chan_put would complete at once without allocating and without running user code, and so cannot raise. */
static bool put_is_plain(const Chan *ch) {
  if (ch->flags & CHAN_SPECIAL_PUT) return false;
  if (ch->waiting[TAKES] && ch->buf.kind != BUFFER_PROMISE) return true;
  return !buffer_full(&ch->buf) && (ch->buf.count < ch->buf.size || buffer_add(&ch->buf) != BUFFER_ADD);
}

/* Whether a put would have to wait, if that is known without running user code. */
static bool is_full(const Chan *ch) {
  if (ch->flags & CHAN_SPECIAL_PUT) return false;
  return !ch->waiting[TAKES] && buffer_full(&ch->buf);
}

/* put_each(chs, v, i) -> j | nil: puts v on the channels of a list, from the i-th on, until one would have to wait, or
   needs a separate put: it is closed, or a put on it may run Lua code or allocate. j is the number of that one. If all
   have got v, and the last is full then, lets the other go blocks run, since a next value has no room before takers
   have run. Until then it raises only if an argument is wrong, before it puts. */
static int moving_put_each(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "a value other than nil expected");
  const Chan *last = NULL;
  for (lua_Integer i = luaL_checkinteger(L, 3);; i++) {
    lua_settop(L, 3);
    int type = lua_rawgeti(L, 1, i);
    Chan *ch = chan_to(L, 4);
    if (type == LUA_TNIL) break;
    if (ch) OBSERVE(ch->sched, look, ch, LOOK_CHANNEL);
    if (!ch || !put_is_plain(ch) || chan_put(L, ch, 4, 2) != PUT_DONE) {
      lua_pushinteger(L, i);
      return 1;
    }
    ch->sched->moves++;
    last = ch;
  }
  if (!last || (!is_full(last) && last->sched->moves < TURN)) return 0;
  return park_yield(L, last->sched, &YIELD, NULL);
}

/* ---- next, poll: for a channel `to`; once that is closed they take nothing ---- */

/* Waits for `from`, or until `to` closes. */
static int wait_for_next(lua_State *L, Chan *from, Chan *to) {
  lua_settop(L, ALT_BLOCK);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  chan_push_done(L, to, 2);
  lua_pushnil(L);
  AltsOp ops[2] = {{.ch = from}, {.ch = (Chan *)lua_touserdata(L, alts_at(1))}};
  Alts a = {.op = &NEXT, .ops = ops, .n = 2, .priority = true};
  int n = alts_try(L, from->sched, &a); /* a finalizer may have used one of them */
  return n ? n : alts_wait(L, from->sched, &a);
}

/* `to` may close while the others run. */
static int next(lua_State *L, int status, lua_KContext alt) {
  Chan *from = check_looked(L, 1, "take", "next(from, to)", LOOK_CHANNEL);
  Chan *to = check_looked(L, 2, "take", "next(from, to)", LOOK_CHANNEL);
  bool waits = !lua_toboolean(L, 3);
  if (moving_must_yield(L, from->sched, status, alt)) return park_yield(L, from->sched, &TAKE, next);
  int n = chan_is_closed(to) ? 0 : chan_take(L, from, 1);
  if (n == TAKE_WAIT) return waits ? wait_for_next(L, from, to) : 0;
  if (n < 2) return n;
  lua_pushnil(L);
  lua_insert(L, -2);
  return 3;
}

/* next(from, to, polls) -> v | nil | nil, _, err: takes a value from `from`. Ends with nil when `to` is closed, also
   while it waits; then nothing is taken. With `polls` it does not wait for a value. */
static int moving_next(lua_State *L) {
  lua_settop(L, 3);
  return next(L, LUA_OK, 0);
}

/* is_plain(ch) -> whether operations on the channel run no user code and pack no values. Then they raise only if memory
   runs out or the go block is cancelled. */
static int moving_is_plain(lua_State *L) {
  const Chan *ch = check_chan(L, 1, "is_plain", "is_plain(ch)");
  lua_pushboolean(L, !(ch->flags & (CHAN_RESULT | CHAN_SPECIAL)));
  return 1;
}

void lua_moving_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"take", moving_take},
      {"put", moving_put},
      {"put_while_open", moving_put_while_open},
      {"put_each", moving_put_each},
      {"next", moving_next},
      {"alts", module_moving_alts},
      {"is_awaited", moving_is_awaited},
      {"is_plain", moving_is_plain},
      {"put_later", moving_put_later},
      {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "moving");
}
