/* lua_alts.c: alts: many operations, of which exactly one happens.

   The stack of a call is: 1 ops, 2 opts, 3 the block of waiters (nil before it parks), and from 4 on two slots for each
   operation: the channel, and the value of a put or nil. They are read out of `ops` before anything else, so that an error
   in reading them has done nothing, and so that nothing depends on the table afterwards.

   Phase one looks which operations can complete at once and does one of them: each is equally likely, or the first with
   `priority`. Nothing of this alts is queued then, so it cannot meet itself. Phase two, where none could, gives the default
   or queues a waiter for each and parks. */
#include "lua_face.h"

enum { OPS = 1, OPTS, BLOCK, FIRST_OP = CHAN_FIRST_OP };

/* Waiters in the smallest block; blocks of that size are kept to be used again. */
enum { BLOCK_WAITERS = 8 };

enum { MAX_OPS = 100000 };

typedef struct Options {
  bool priority;    /* try in the order given */
  bool has_default; /* do not wait: give the default, which is on the stack, */
  int default_at;   /* here, or nil where this is 0 */
} Options;

static int channel_at(int op) { return FIRST_OP + 2 * op; }

static Chan *channel_of(lua_State *L, int op) { return (Chan *)lua_touserdata(L, channel_at(op)); }

static bool is_put(lua_State *L, int op) { return !lua_isnil(L, channel_at(op) + 1); }

/* Raises that element `i` of the ops is not an operation. */
static int bad_op(lua_State *L, lua_Integer i, const char *why) {
  return luaL_error(L, "alts: operation %I %s; write a channel to take from it, or {channel, value} to put", (LUAI_UACINT)i, why);
}

/* Replaces the element on top of the stack by its channel and its value or nil. */
static void push_op(lua_State *L, lua_Integer i) {
  if (face_to_chan(L, -1)) {
    lua_pushnil(L);
    return;
  }
  if (!lua_istable(L, -1)) {
    bad_op(L, i, lua_isnil(L, -1) ? "is nil" : "is not a channel");
  }
  lua_geti(L, -1, 1);
  if (!face_to_chan(L, -1)) bad_op(L, i, "does not begin with a channel");
  if (lua_geti(L, -2, 2) == LUA_TNIL) bad_op(L, i, "has no value to put, or nil, which cannot be put");
  lua_remove(L, -3);
}

/* Pushes all operations and returns how many they are. */
static int push_ops(lua_State *L) {
  if (!lua_istable(L, OPS)) {
    luaL_error(L, "alts: a list of operations expected, got %s", lua_isnone(L, OPS) ? "nothing" : luaL_typename(L, OPS));
  }
  lua_Integer n = luaL_len(L, OPS);
  if (n > MAX_OPS) luaL_error(L, "alts: at most %d operations", MAX_OPS);
  luaL_checkstack(L, (int)(2 * n) + LUA_MINSTACK, "too many operations for alts");
  for (lua_Integer i = 1; i <= n; i++) {
    lua_geti(L, OPS, i);
    push_op(L, i);
  }
  return (int)n;
}

/* Reads the options; a default is pushed. */
static Options read_options(lua_State *L) {
  Options o = {false, false, 0};
  if (lua_isnil(L, OPTS)) return o;
  if (!lua_istable(L, OPTS)) luaL_error(L, "alts: options are a table, got %s", luaL_typename(L, OPTS));
  lua_getfield(L, OPTS, "priority");
  o.priority = lua_toboolean(L, -1);
  lua_getfield(L, OPTS, "nowait");
  o.has_default = lua_toboolean(L, -1);
  lua_pop(L, 2);
  if (lua_getfield(L, OPTS, "default") != LUA_TNIL) {
    o.has_default = true;
    o.default_at = lua_gettop(L);
  } else {
    lua_pop(L, 1);
  }
  return o;
}

static bool can_complete(lua_State *L, int op) {
  Chan *ch = channel_of(L, op);
  return is_put(L, op) ? chan_can_put(L, ch, channel_at(op)) : chan_can_take(L, ch, channel_at(op));
}

/* The operation to do at once, or -1. */
static int choose(lua_State *L, Sched *S, int n, bool priority) {
  int chosen = -1;
  uint32_t ready = 0;
  for (int op = 0; op < n; op++) {
    if (!can_complete(L, op)) continue;
    if (priority) return op;
    /* The k-th that is ready replaces the choice with probability 1/k: each ends up equally likely. */
    if (++ready == 1 || sched_random(S, ready) == 0) chosen = op;
  }
  return chosen;
}

/* Does an operation that can complete; pushes value, port, and the reason of a closed channel. Returns how many. */
static int do_at_once(lua_State *L, int op, uint8_t flags) {
  Chan *ch = channel_of(L, op);
  int at = channel_at(op);
  if (is_put(L, op)) {
    PutResult result = chan_put(L, ch, at, at + 1);
    if (result == PUT_WAIT) return 0;
    lua_pushboolean(L, result == PUT_DONE);
    return 1 + chan_push_port(L, flags, at);
  }
  int n = chan_take(L, ch, at);
  if (n == TAKE_WAIT) return 0;
  chan_push_port(L, flags, at);
  if (n == 2) lua_insert(L, -2); /* the reason comes last */
  return n + 1;
}

/* ---- blocks of waiters, which are used again ---- */

/* Puts a block for n waiters into its place on the stack. */
static Waiter *get_block(lua_State *L, Sched *S, int n) {
  if (n <= BLOCK_WAITERS && S->pool_size > 0) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_POOL);
    lua_rawgeti(L, -1, S->pool_size--);
    lua_replace(L, BLOCK);
    lua_pop(L, 1);
  } else {
    lua_newuserdatauv(L, (size_t)(n < BLOCK_WAITERS ? BLOCK_WAITERS : n) * sizeof(Waiter), 0);
    lua_replace(L, BLOCK);
  }
  return (Waiter *)lua_touserdata(L, BLOCK);
}

/* Gives the block back; keeps it where that takes no memory. */
static void put_block(lua_State *L, Sched *S) {
  if (S->pool_size >= SCHED_POOL_BLOCKS || lua_rawlen(L, BLOCK) != BLOCK_WAITERS * sizeof(Waiter)) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_POOL);
  lua_pushvalue(L, BLOCK);
  lua_rawseti(L, -2, ++S->pool_size);
  lua_pop(L, 1);
}

/* Returns the results of an alts that has parked. */
static int alts_resumed(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  Alt *alt = (Alt *)ctx;
  int n = sched_resumed(L, alt);
  put_block(L, sched_self(L));
  return n;
}

/* Queues a waiter for each operation. There is room for all, or nothing is queued and it raises. */
static void queue_all(lua_State *L, Sched *S, Alt *alt, int n, uint8_t flags) {
  Waiter *waiters = get_block(L, S, n);
  alt->state = ALT_PARKED;
  alt->flags |= flags;
  alt->waiters = waiters;
  for (int op = 0; op < n; op++) {
    Chan *ch = channel_of(L, op);
    bool put = is_put(L, op);
    if (UNLIKELY(!chan_has_room(ch, put))) {
      chan_withdraw(alt);
      alt->state = ALT_IDLE;
      alt->flags &= (uint8_t)~flags;
      chan_check_room(L, ch, channel_at(op), put);
    }
    chan_wait(ch, &waiters[op], alt, channel_at(op), put);
    alt->count++;
  }
}

/* Both functions; `flags` are the alt's. */
static int alts(lua_State *L, uint8_t flags) {
  Sched *S = sched_self(L);
  lua_settop(L, BLOCK);
  lua_pushnil(L);
  lua_replace(L, BLOCK);
  int n = push_ops(L);
  Options options = read_options(L);
  int op = choose(L, S, n, options.priority);
  if (op >= 0) {
    int results = do_at_once(L, op, flags);
    if (LIKELY(results)) return results; /* else a buffer policy has changed its mind between two questions */
  }
  if (options.has_default) {
    if (options.default_at) lua_pushvalue(L, options.default_at);
    else lua_pushnil(L);
    lua_pushliteral(L, "default");
    return 2;
  }
  if (n == 0) return luaL_error(L, "alts: no operations: it would wait for ever");
  Alt *alt = sched_waiter(L, S, "alts");
  queue_all(L, S, alt, n, flags);
  int results = sched_wait(L, S, alt, "alts", alts_resumed);
  put_block(L, S); /* only outside a go block does it get here */
  return results;
}

/* alts(ops, {priority=, default=, nowait=}) -> value, port | default, "default" */
static int core_alts(lua_State *L) { return alts(L, ALT_SELECT); }

/* The same with the number of the operation instead of its port. */
static int core_alts_index(lua_State *L) { return alts(L, ALT_SELECT | ALT_INDEX); }

void lua_alts_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"alts", core_alts}, {"alts_index", core_alts_index}, {NULL, NULL}};
  face_register(L, functions);
}
