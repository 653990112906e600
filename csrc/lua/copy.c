/* lua/copy.c: how a mult (lua/runnel/mult.lua) takes values from its source and puts each of them on all its taps. The
   usual case is done here, without a call from Lua for each step; for the rest it returns to Lua. */
#include "blocks/park.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/moving.h"

static const Operation TAKE = {.name = "take", .waiter = WAITER_FREE};
static const Operation YIELD = {.name = "yield"};

/* ---- offering to each channel of a list ---- */

typedef enum Offered {
  OFFERED_ALL,  /* all channels have the value */
  OFFERED_FULL, /* the next one is full */
  OFFERED_ASK   /* the next one needs an offer of its own: it is closed, or a put on it may run Lua code or allocate */
} Offered;

/* Puts the value at index `value` on the channels of the list at index `list`, from the i-th on. Sets *i to the number
   of the one at which it stops, and *last to the one before it, if it put on that. */
static Offered offer_each(lua_State *L, int list, int value, lua_Integer *i, const Chan **last) {
  enum { LEFT = 4 }; /* channels that may be left on the stack, since removing each of them takes time */
  const int top = lua_gettop(L);
  int at = top;
  Offered offered;
  for (;; ++*i) {
    if (at == top + LEFT) lua_settop(L, at = top);
    int type = lua_rawgeti(L, list, *i);
    Chan *ch = chan_to(L, ++at);
    offered = type == LUA_TNIL ? OFFERED_ALL : OFFERED_ASK;
    if (!ch) break;
    ch->sched->world.moves++; /* see lua/moving.c */
    if (!chan_put_is_plain(ch)) {
      if (chan_is_full(ch)) offered = OFFERED_FULL;
      break;
    }
    if (chan_put(L, ch, at, value) != PUT_DONE) break;
    *last = ch;
  }
  lua_settop(L, top);
  return offered;
}

/* offer_each(chs, v, i) -> j, full: puts v on the channels of a list, from the i-th on, until one is full or needs an
   offer of its own. j is the number of that channel, or n + 1; `full`: whether it is full. Raises nothing but that an
   argument is wrong, before it puts. */
static int internal_offer_each(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "a value other than nil expected");
  lua_Integer i = luaL_checkinteger(L, 3);
  const Chan *last;
  Offered offered = offer_each(L, 1, 2, &i, &last);
  lua_pushinteger(L, i);
  lua_pushboolean(L, offered == OFFERED_FULL);
  return 2;
}

/* ---- copying ---- */

/* The stack of copy: its arguments, the value that was taken, and the number of a channel while it yields. */
enum { SOURCE = 1, CHANNELS, VALUE, NUMBER };

/* The field of the list of channels that is true when the list has changed. */
enum { CHANGED = 0 };

/* When other go blocks have run last. */
typedef enum Waited {
  NOT_WAITED,  /* before the last put, as far as is known */
  WAITED,      /* since then, but before the value was taken */
  WAITED_SINCE /* since the value was taken */
} Waited;

static int copy(lua_State *L, int n, Waited waited);

static int has_yielded(lua_State *L, int status, lua_KContext alt);

/* Puts the value on the channels from the i-th on. If one is full, its taker is usually about to run: lets the other go
   blocks run, unless they have, and tries again. Returns 0 when all have it, and sets *last to the last of them; else
   returns the number of results of copy. */
static int put_on_all(lua_State *L, lua_Integer i, Waited waited, const Chan **last) {
  lua_rawgeti(L, CHANNELS, CHANGED);
  bool has_changed = lua_toboolean(L, -1);
  lua_settop(L, VALUE);
  Offered offered = has_changed ? OFFERED_ASK : offer_each(L, CHANNELS, VALUE, &i, last);
  if (offered == OFFERED_ALL) return 0;
  lua_pushinteger(L, i);
  if (offered == OFFERED_FULL && waited == NOT_WAITED) return park_yield(L, sched_self(L), &YIELD, has_yielded);
  lua_pushboolean(L, offered == OFFERED_FULL);
  lua_pushboolean(L, waited == WAITED_SINCE || (waited == WAITED && offered == OFFERED_FULL));
  return 4;
}

static int has_yielded(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  const Chan *last;
  int results = put_on_all(L, lua_tointeger(L, NUMBER), WAITED_SINCE, &last);
  if (results) return results;
  lua_settop(L, CHANNELS);
  return copy(L, 0, NOT_WAITED);
}

static int others_have_run(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  return copy(L, 0, WAITED);
}

static int has_taken(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  return copy(L, park_resumed(L, (Alt *)alt), NOT_WAITED);
}

/* Continues with the `n` results of a take, which are on top of L; or with the next take if `n` is 0. */
static int copy(lua_State *L, int n, Waited waited) {
  Chan *source = (Chan *)lua_touserdata(L, SOURCE);
  Sched *S = source->sched;
  for (;; n = 0, waited = NOT_WAITED) {
    if (n == 0) {
      if (moving_is_turn_over(S)) return park_yield(L, S, &TAKE, others_have_run);
      n = chan_take(L, source, SOURCE);
      if (n == TAKE_WAIT) return park_on(L, source, SOURCE, &TAKE, has_taken);
      S->world.moves++;
    }
    if (lua_isnil(L, VALUE)) return n;
    const Chan *last = NULL;
    int results = put_on_all(L, 1, waited, &last);
    if (results) return results;
    lua_settop(L, CHANNELS);
    /* If the next value is there, lets the takers run before it is taken: until then there is no room for it. */
    if (last && chan_is_full(last) && moving_is_plain(source) && chan_can(source, false)) {
      return park_yield(L, S, &YIELD, others_have_run);
    }
  }
}

/* copy(source, chs) -> v, i, full, waited | nil, err: takes values and puts each of them on all channels of a list,
   until the source is closed; or a value v cannot be put on the i-th channel, which is full or needs an offer of its
   own; or chs[0] is true. `waited`: whether other go blocks have run since v was taken, or the i-th channel is full
   although they have just run. Raises what the take raises. */
static int internal_copy(lua_State *L) {
  check_chan(L, SOURCE, "take", "copy(source, chs)");
  luaL_checktype(L, CHANNELS, LUA_TTABLE);
  lua_settop(L, CHANNELS);
  return copy(L, 0, NOT_WAITED);
}

void lua_copy_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"copy", internal_copy},
      {"offer_each", internal_offer_each},
      {NULL, NULL},
  };
  module_register(L, functions);
}
