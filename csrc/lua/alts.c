/* lua/alts.c: alts: many operations, of which exactly one happens.

   The stack of a call is: 1 ops, 2 opts, 3 the block of waiters (nil before it parks), and from 4 on two slots for each
   operation: the channel, and the value of a put or nil. They are read out of `ops` before anything else, so that an error
   in reading them has done nothing, and so that nothing depends on the table afterwards.

   Phase one looks which operations can complete at once and does one of them: each is equally likely, or the first with
   `priority`. Nothing of this alts is queued then, so it cannot meet itself. Phase two, where none could, gives the default
   or queues a waiter for each and parks. Between the two no code of the user's may run, or it is looked again: a buffer
   policy that is asked, and a finalizer when something is allocated, may use the channels that were looked at before. */
#include <stdlib.h>
#include <string.h>

#include "core/chan_user.h"
#include "core/keep.h"
#include "core/error.h"
#include "lua/face.h"

enum { OPS = 1, OPTS, BLOCK, FIRST_OP = CHAN_FIRST_OP };

enum {
  FEW_OPS = 64, /* as many are kept on the C stack */
  MAX_OPS = 100000
};

/* An operation, read out of the table. */
typedef struct Op {
  Chan *ch;    /* its channel, which is on the stack at channel_at */
  bool is_put; /* a put, its value one slot further, or a take */
  bool passed; /* its policy said that it could be done, and then that it could not: not to be chosen again */
} Op;

typedef struct Options {
  bool priority;    /* try in the order given */
  bool has_default; /* do not wait: give the default, or nil, which is on the stack */
  int default_at;   /* here; 0 without any options */
} Options;

static int channel_at(int op) { return FIRST_OP + 2 * op; }

/* ---- reading the arguments ---- */

/* How the function is called that people know: alt is written in Lua, upon alts_index. */
static const char *name_of(uint8_t flags) { return flags & ALT_INDEX ? "alt" : "alts"; }

/* Raises the message on top of the stack. */
static int raise(lua_State *L, uint8_t flags) {
  lua_pushfstring(L, "%s: %s", name_of(flags), lua_tostring(L, -1));
  return error_raise(L);
}

/* Raises that element `i` of the ops is not an operation. */
_Noreturn static void bad_op(lua_State *L, lua_Integer i, const char *why, uint8_t flags) {
  lua_pushfstring(L, "operation %I %s; write a channel to take from it, or {channel, value} to put", (LUAI_UACINT)i, why);
  raise(L, flags);
  abort(); /* not reached: raising does not return */
}

/* Replaces the element on top of the stack by its channel and its value or nil. */
static Op push_op(lua_State *L, lua_Integer i, uint8_t flags) {
  Op op = {face_to_chan(L, -1), false, false};
  if (LIKELY(op.ch)) {
    lua_pushnil(L);
    return op;
  }
  if (!lua_istable(L, -1)) bad_op(L, i, lua_isnil(L, -1) ? "is nil" : "is not a channel", flags);
  lua_geti(L, -1, 1);
  op = (Op){face_to_chan(L, -1), true, false};
  if (!op.ch) bad_op(L, i, "does not begin with a channel", flags);
  if (lua_geti(L, -2, 2) == LUA_TNIL) bad_op(L, i, "has no value to put, or nil, which cannot be put", flags);
  lua_remove(L, -3);
  return op;
}

/* The number of operations; there is room for them on the stack. Sets `plain` where the table has no metamethods. */
static int count_ops(lua_State *L, bool *plain) {
  if (!lua_istable(L, OPS)) {
    luaL_error(L, "alts: a list of operations expected, got %s", lua_isnil(L, OPS) ? "nothing" : luaL_typename(L, OPS));
  }
  *plain = !lua_getmetatable(L, OPS);
  if (!*plain) lua_pop(L, 1);
  lua_Integer n = LIKELY(*plain) ? (lua_Integer)lua_rawlen(L, OPS) : luaL_len(L, OPS);
  if (n < 0 || n > MAX_OPS) luaL_error(L, "alts: from 1 to %d operations expected, got %I", MAX_OPS, (LUAI_UACINT)n);
  luaL_checkstack(L, (int)(2 * n) + LUA_MINSTACK, "too many operations for alts");
  return (int)n;
}

/* Raises that the ops have a field besides the operations, whose key is on top of the stack. */
_Noreturn static void bad_field(lua_State *L, uint8_t flags) {
  const char *key = luaL_tolstring(L, -1, NULL);
  lua_pushfstring(L, "the list of operations has a field '%s'; options go into a table of their own: "
                  "rn.alts({ ... }, { priority = true, default = value })", key);
  raise(L, flags);
  abort(); /* not reached: raising does not return */
}

/* Raises for ops with a key other than 1 to n: whoever writes `{ c, default = x }` would wait for ever. To be called before
   waiting only, since a call of lua_next is 2 % of an alts; and for ops that were looked at last time, not again. The table
   must have no metamethods, and its n-th element. */
static void check_fields(lua_State *L, Sched *S, int n, uint8_t flags) {
  const void *ops = lua_topointer(L, OPS);
  if (ops == S->checked) return;
  if (n > 0) lua_pushinteger(L, n);
  else lua_pushnil(L);
  while (lua_next(L, OPS)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1)) bad_field(L, flags);
  }
  S->checked = ops;
}

/* Raises that there is no option by the name of the key on top of the stack. */
_Noreturn static void bad_option(lua_State *L, uint8_t flags) {
  const char *key = luaL_tolstring(L, -1, NULL);
  lua_pushfstring(L, "there is no option '%s'; there are priority, default and nowait", key);
  raise(L, flags);
  abort();
}

/* Reads those of a table with a metatable, whose fields may be elsewhere. */
static Options ask_for_options(lua_State *L, Options o) {
  lua_getfield(L, OPTS, "priority");
  o.priority = lua_toboolean(L, -1);
  lua_getfield(L, OPTS, "nowait");
  o.has_default = lua_toboolean(L, -1);
  lua_pop(L, 2);
  if (lua_getfield(L, OPTS, "default") != LUA_TNIL) o.has_default = true;
  lua_replace(L, o.default_at);
  return o;
}

/* Reads the options. One look at each field is cheaper than asking for each that there may be. */
static Options read_options(lua_State *L, uint8_t flags) {
  Options o = {false, false, 0};
  if (lua_isnil(L, OPTS)) return o;
  if (!lua_istable(L, OPTS)) luaL_error(L, "alts: options are a table, got %s", luaL_typename(L, OPTS));
  lua_pushnil(L);
  o.default_at = lua_gettop(L);
  if (UNLIKELY(lua_getmetatable(L, OPTS))) {
    lua_pop(L, 1);
    return ask_for_options(L, o);
  }
  lua_pushnil(L);
  while (lua_next(L, OPTS)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(key, "priority") == 0) {
      o.priority = lua_toboolean(L, -1);
    } else if (strcmp(key, "default") == 0) {
      o.has_default = true;
      lua_pushvalue(L, -1);
      lua_replace(L, o.default_at);
    } else if (strcmp(key, "nowait") == 0) {
      o.has_default |= lua_toboolean(L, -1);
    } else {
      lua_pop(L, 1);
      bad_option(L, flags);
    }
    lua_pop(L, 1);
  }
  return o;
}

/* ---- phase one ---- */

/* The operation to do at once, or -1. Sets `asked` where a policy was asked. */
static int choose(lua_State *L, Sched *S, const Op *ops, int n, bool priority, bool *asked) {
  int chosen = -1;
  uint32_t ready = 0;
  for (int i = 0; i < n; i++) {
    if (UNLIKELY(ops[i].ch->buf.kind == BUFFER_POLICY)) {
      if (ops[i].passed) continue;
      *asked = true;
    }
    bool can = ops[i].is_put ? chan_can_put(L, ops[i].ch, channel_at(i)) : chan_can_take(L, ops[i].ch, channel_at(i));
    if (!can) continue;
    if (priority) return i;
    /* The k-th that is ready replaces the choice with probability 1/k: each ends up equally likely. */
    if (++ready == 1 || sched_random(S, ready) == 0) chosen = i;
  }
  return chosen;
}

/* Whether an operation can complete, as far as that is known without asking a policy. */
static bool some_can(const Op *ops, int n) {
  for (int i = 0; i < n; i++) {
    Chan *ch = ops[i].ch;
    if (ops[i].passed) continue;
    if (ch->flags & CHAN_CLOSED || chan_first(ch, !ops[i].is_put)) return true;
    if (ch->buf.kind != BUFFER_POLICY && (ops[i].is_put ? !buffer_full(&ch->buf) : ch->buf.count > 0)) return true;
  }
  return false;
}

/* Does an operation that can complete; pushes value, port, and the reason of a closed channel. Returns how many. */
static int do_at_once(lua_State *L, Op op, int at, uint8_t flags) {
  if (op.is_put) {
    PutResult result = chan_put(L, op.ch, at, at + 1);
    if (result == PUT_WAIT) return 0;
    lua_pushboolean(L, result == PUT_DONE);
    return 1 + chan_push_port(L, flags, at);
  }
  int n = chan_take(L, op.ch, at);
  if (n == TAKE_WAIT) return 0;
  chan_push_port(L, flags, at);
  if (n == 2) lua_insert(L, -2); /* the reason comes last */
  return n + 1;
}

/* ---- phase two ----

   The waiters lie in a userdata, a block, which is used again: the scheduler keeps some of two sizes. */

static const int BLOCK_SIZES[SCHED_POOLS] = {8, 64};

/* The pool for n waiters, or SCHED_POOLS. */
static int pool_for(int n) {
  int pool = 0;
  while (pool < SCHED_POOLS && n > BLOCK_SIZES[pool]) pool++;
  return pool;
}

/* Puts a block for n waiters that is to be used again into its place on the stack, or returns NULL. */
static Waiter *pooled_block(lua_State *L, Sched *S, int n) {
  int pool = pool_for(n);
  if (pool == SCHED_POOLS || S->pooled[pool] == 0) return NULL;
  lua_getiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  lua_rawgeti(L, -1, S->pooled[pool]--);
  lua_replace(L, BLOCK);
  lua_pop(L, 1);
  return (Waiter *)lua_touserdata(L, BLOCK);
}

/* Puts a new one there. */
static Waiter *new_block(lua_State *L, int n) {
  int pool = pool_for(n), size = pool < SCHED_POOLS ? BLOCK_SIZES[pool] : n;
  Waiter *block = (Waiter *)lua_newuserdatauv(L, (size_t)size * sizeof(Waiter), 0);
  for (int i = 0; i < size; i++) block[i] = (Waiter){.link = {NULL, NULL}};
  lua_replace(L, BLOCK);
  return block;
}

/* Gives the block of n waiters back; allocates nothing, since the pool's table has room for all that it may hold. */
static void put_block(lua_State *L, Sched *S, int n) {
  int pool = pool_for(n);
  if (pool == SCHED_POOLS || S->pooled[pool] >= SCHED_POOL_BLOCKS) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  lua_pushvalue(L, BLOCK);
  lua_rawseti(L, -2, ++S->pooled[pool]);
  lua_pop(L, 1);
}

/* Returns the results of an alts that has parked. */
static int alts_resumed(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  Alt *alt = (Alt *)ctx;
  int n = sched_resumed(L, alt);
  put_block(L, sched_self(L), (int)(lua_rawlen(L, BLOCK) / sizeof(Waiter)));
  return n;
}

/* Queues a waiter for each operation. There is room for all, or nothing is queued and it raises; or they count for nothing
   where `is_free`. */
static void queue_all(lua_State *L, Alt *alt, Waiter *waiters, const Op *ops, int n, uint8_t flags, bool is_free) {
  alt->state = ALT_PARKED;
  alt->flags |= flags;
  alt->waiters = waiters;
  waiters->is_away = false;
  for (int i = 0; i < n; i++) {
    if (UNLIKELY(!is_free && !chan_has_room(ops[i].ch, ops[i].is_put))) {
      chan_withdraw(alt);
      alt->state = ALT_IDLE;
      alt->flags &= (uint8_t)~flags;
      chan_no_room(L, ops[i].ch, channel_at(i), ops[i].is_put);
    }
    chan_wait(ops[i].ch, &waiters[i], alt, channel_at(i), ops[i].is_put);
    waiters[i].is_free = is_free;
    alt->count++;
  }
}

/* ---- alts ---- */

/* All of these functions; `flags` are the alt's. The library's own one has waiters that are free, and is counted where it moves
   a value without waiting. */
static inline int alts(lua_State *L, uint8_t flags, bool is_free) {
  Sched *S = sched_self(L);
  lua_settop(L, OPTS);
  lua_pushnil(L); /* BLOCK */
  bool plain;
  int n = count_ops(L, &plain);
  Op few[FEW_OPS], *ops = few;
  if (UNLIKELY(n > FEW_OPS)) {
    /* In the place of the block, and then of a value that nobody needs, so that it lives as long as it is needed. */
    ops = (Op *)lua_newuserdatauv(L, (size_t)n * sizeof(Op), 0);
    lua_replace(L, BLOCK);
  }
  for (int i = 0; i < n; i++) {
    if (LIKELY(plain)) lua_rawgeti(L, OPS, i + 1);
    else lua_geti(L, OPS, i + 1);
    ops[i] = push_op(L, i + 1, flags);
  }
  Options options = read_options(L, flags);
  Waiter *waiters = NULL;
  for (;;) {
    bool asked = false;
    int chosen = choose(L, S, ops, n, options.priority, &asked);
    if (chosen >= 0) {
      int results = do_at_once(L, ops[chosen], channel_at(chosen), flags);
      if (is_free) S->world.moves++;
      if (LIKELY(results)) return results;
      ops[chosen].passed = ops[chosen].ch->buf.kind == BUFFER_POLICY;
      continue;
    }
    if (UNLIKELY(S->inside)) { /* a transducer or a policy, perhaps of one of them: as in any other operation on it */
      for (int i = 0; i < n; i++) chan_user_check_busy(L, ops[i].ch, channel_at(i));
    }
    if (options.has_default) {
      lua_pushvalue(L, options.default_at);
      lua_pushliteral(L, "default");
      return 2;
    }
    if (LIKELY(plain) && !waiters) check_fields(L, S, n, flags);
    if (n == 0) {
      lua_pushliteral(L, "no operations: it would wait for ever");
      return raise(L, flags);
    }
    if (UNLIKELY(asked) && some_can(ops, n)) continue;
    if (waiters) break;
    if (n > FEW_OPS) lua_copy(L, BLOCK, OPS);
    waiters = pooled_block(L, S, n);
    if (LIKELY(waiters)) break;
    waiters = new_block(L, n);
  }
  Alt *alt = sched_waiter(L, S, name_of(flags));
  keep_block(L, S, waiters, BLOCK);
  for (int i = 0; i < n; i++) keep_channel(L, ops[i].ch, channel_at(i));
  queue_all(L, alt, waiters, ops, n, flags, is_free);
  if (is_free) S->world.moves = 0;
  int results = sched_wait(L, S, alt, name_of(flags), alts_resumed);
  put_block(L, S, n); /* only outside a go block does it get here */
  return results;
}

/* alts(ops, {priority=, default=, nowait=}) -> value, port | default, "default" */
static int core_alts(lua_State *L) { return alts(L, ALT_SELECT, false); }

int face_alts_index(lua_State *L) { return alts(L, ALT_SELECT | ALT_INDEX, false); }

int face_moving_alts(lua_State *L) { return alts(L, ALT_SELECT | ALT_INDEX, true); }

void lua_alts_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"alts", core_alts}, {NULL, NULL}};
  face_register(L, functions);
}
