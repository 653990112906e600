/* alts.c: see alts.h. */
#include "blocks/alts.h"

#include <lauxlib.h>

#include "base/random.h"
#include "blocks/explore.h"
#include "blocks/park.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "channels/chan_custom.h"
#include "lifetimes/keep.h"
#include "sharing/chan_shared.h"

/* ---- try ---- */

enum { NONE_CAN = -1, MIXED = -2 };

/* The choice of an explorer among `ready` operations that can complete; `chosen`, if a policy has changed its mind. */
NOINLINE static int explore(lua_State *L, Explore *e, const Alts *a, uint32_t ready, int chosen) {
  uint32_t left = explore_choose(e, ready, CHOICE_ALTS);
  for (int i = 0; i < a->n; i++) {
    Chan *ch = a->ops[i].ch;
    if (a->ops[i].passed) continue;
    bool can =
        ch->flags & CHAN_SPECIAL ? ch->ops->can(L, ch, alts_at(i), a->ops[i].is_put) : chan_can(ch, a->ops[i].is_put);
    if (can && left-- == 0) return i;
  }
  return chosen;
}

/* The operation to do at once, or NONE_CAN. Notes whether a policy was asked. MIXED if there is one on a shared
   channel, so that try_mixed has to choose. */
static int choose(lua_State *L, Sched *S, Alts *a) {
  const AltsOp *ops = a->ops;
  const int n = a->n;
  const bool priority = a->priority;
  bool asked = false;
  int chosen = NONE_CAN;
  uint32_t ready = 0;
  for (int i = 0; i < n; i++) {
    Chan *ch = ops[i].ch;
    if (UNLIKELY(ch->flags & CHAN_SPECIAL)) {
      if (chan_is_shared(ch)) return MIXED;
      if (ops[i].passed) continue;
      asked |= ch->buf.kind == BUFFER_POLICY;
      if (!ch->ops->can(L, ch, alts_at(i), ops[i].is_put)) continue;
    } else if (!chan_can(ch, ops[i].is_put)) {
      continue;
    }
    /* The k-th that is ready replaces the choice with probability 1/k: each ends up equally likely. */
    if (++ready == 1 || random_below(&S->world.random, ready) == 0) chosen = i;
    if (priority) break;
  }
  a->asked = asked;
  if (UNLIKELY(ready > 1) && S->world.explore) return explore(L, S->world.explore, a, ready, chosen);
  return chosen;
}

/* Does an operation that can complete; pushes value, port, and the reason of a closed channel. Returns how many; or 0,
   if its policy has changed its mind. */
static int do_at_once(lua_State *L, AltsOp op, int at, uint8_t flags) {
  if (op.is_put) {
    PutResult result = chan_put(L, op.ch, at, at + 1);
    if (result == PUT_WAIT) return 0;
    lua_pushboolean(L, result == PUT_DONE);
    return 1 + alt_push_port(L, flags, at);
  }
  int n = chan_take(L, op.ch, at);
  if (n == TAKE_WAIT) return 0;
  alt_push_port(L, flags, at);
  if (n == 2) lua_insert(L, -2); /* the reason comes last */
  return n + 1;
}

/* Fills `order` with the numbers of the operations: in random order, or as given with `priority`. */
static void shuffle(Sched *S, const Alts *a, int *order) {
  for (int i = 0; i < a->n; i++) {
    int j = a->priority ? i : (int)random_below(&S->world.random, (uint32_t)i + 1);
    order[i] = i;
    order[i] = order[j];
    order[j] = i;
  }
}

/* The place in `order` of the first operation on a local channel that can be done, or a->n. Raises what a policy
   raises. */
static int first_local(lua_State *L, Alts *a, const int *order) {
  a->asked = false;
  for (int i = 0; i < a->n; i++) {
    const AltsOp *op = &a->ops[order[i]];
    int at = alts_at(order[i]);
    if (chan_is_shared(op->ch)) continue;
    if (op->ch->buf.kind != BUFFER_POLICY) {
      if (chan_can(op->ch, op->is_put)) return i;
    } else if (!op->passed) {
      a->asked = true;
      if (op->ch->ops->can(L, op->ch, at, op->is_put)) return i;
    }
  }
  return a->n;
}

/* So many operations are ordered without allocating. */
enum { FEW = 64 };

/* Does one of the first `n` operations in `order` (NULL: in the order given) that are on shared channels; with `alt`,
   waits if none can be done. Returns the number of results, or 0. */
static int do_shared(lua_State *L, Sched *S, const Alts *a, const int *order, int n, Alt *alt) {
  uint32_t shared = 0;
  for (int i = 0; i < n; i++) shared += chan_is_shared(a->ops[order ? order[i] : i].ch);
  if (!shared) return 0;
  SharedWait *wait = chan_shared_begin(L, S, shared);
  for (int i = 0; i < n; i++) {
    int k = order ? order[i] : i;
    if (chan_is_shared(a->ops[k].ch)) chan_shared_add(L, wait, alts_at(k), alts_at(k), a->ops[k].is_put, a->op);
  }
  return chan_shared_do(L, S, wait, alt, a->op->flags);
}

/* Does one of the operations, of which some are on shared channels, if that can be done at once. Returns the number of
   results, or 0.

   The operations are looked at in random order. Local channels do not change meanwhile, so the first one that is ready
   is found without locks; then the shared channels of the operations before it are locked, all at once, and the first
   of these operations that can be done is done. If none can, the random numbers are as before: how often this is tried
   depends on memory, and a simulation must not. */
static int do_mixed(lua_State *L, Sched *S, Alts *a) {
  int few[FEW], *order = few, top = lua_gettop(L);
  const uint64_t random = S->world.random;
  if (a->n > FEW) order = (int *)lua_newuserdatauv(L, (size_t)a->n * sizeof(int), 0);
  for (;;) {
    shuffle(S, a, order);
    int local = first_local(L, a, order);
    int results = do_shared(L, S, a, order, local, NULL);
    if (results) return results;
    if (local == a->n) break;
    AltsOp *op = &a->ops[order[local]];
    results = do_at_once(L, *op, alts_at(order[local]), a->op->flags);
    if (results) return results;
    op->passed = op->ch->buf.kind == BUFFER_POLICY;
  }
  lua_settop(L, top);
  S->world.random = random;
  return 0;
}

int alts_try(lua_State *L, Sched *S, Alts *a) {
  const uint64_t random = S->world.random;
  int chosen;
  while ((chosen = choose(L, S, a)) >= 0) {
    AltsOp *op = &a->ops[chosen];
    int results = do_at_once(L, *op, alts_at(chosen), a->op->flags);
    if (LIKELY(results)) return results;
    op->passed = op->ch->buf.kind == BUFFER_POLICY;
  }
  if (UNLIKELY(chosen == MIXED)) {
    a->mixed = true;
    S->world.random = random; /* as if this had not begun: see do_mixed */
    int results = do_mixed(L, S, a);
    if (results) return results;
  }
  if (UNLIKELY(S->inside)) { /* user code, perhaps of one of these channels, which must not use it then */
    for (int i = 0; i < a->n; i++) chan_custom_check_busy(L, a->ops[i].ch, alts_at(i));
  }
  return 0;
}

/* Whether an operation can complete, as far as that is known without asking a policy. */
static bool some_can(const Alts *a) {
  for (int i = 0; i < a->n; i++) {
    const AltsOp *op = &a->ops[i];
    const Chan *ch = op->ch;
    if (op->passed || chan_is_shared(ch)) continue;
    if (ch->buf.kind != BUFFER_POLICY && chan_can(ch, op->is_put)) return true;
    if (ch->flags & CHAN_CLOSED || (op->is_put ? ch->takes.first : ch->puts.first)) return true;
  }
  return false;
}

/* ---- the block of waiters: a userdata, which is used again; the scheduler keeps some of two sizes ---- */

static const int BLOCK_SIZES[SCHED_POOLS] = {8, 64};

/* The pool for n waiters, or SCHED_POOLS. */
static int pool_for(int n) {
  int pool = 0;
  while (pool < SCHED_POOLS && n > BLOCK_SIZES[pool]) pool++;
  return pool;
}

/* Puts a block for n waiters from a pool at ALT_BLOCK, or returns NULL. */
static Waiter *pooled_block(lua_State *L, Sched *S, int n) {
  int pool = pool_for(n);
  if (pool == SCHED_POOLS || S->pooled[pool] == 0) return NULL;
  lua_getiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  lua_rawgeti(L, -1, S->pooled[pool]--);
  lua_replace(L, ALT_BLOCK);
  lua_pop(L, 1);
  return (Waiter *)lua_touserdata(L, ALT_BLOCK);
}

/* Puts a new block for n waiters at ALT_BLOCK. May raise. */
static Waiter *new_block(lua_State *L, int n) {
  int pool = pool_for(n), size = pool < SCHED_POOLS ? BLOCK_SIZES[pool] : n;
  Waiter *block = (Waiter *)lua_newuserdatauv(L, (size_t)size * sizeof(Waiter), 0);
  for (int i = 0; i < size; i++) block[i] = (Waiter){.link = {NULL, NULL}};
  lua_replace(L, ALT_BLOCK);
  return block;
}

/* Returns the block of n waiters to its pool. Allocates nothing: the pool's table has room for all that it may hold. */
static void release_block(lua_State *L, Sched *S, int n) {
  int pool = pool_for(n);
  if (pool == SCHED_POOLS || S->pooled[pool] >= SCHED_POOL_BLOCKS) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  lua_pushvalue(L, ALT_BLOCK);
  lua_rawseti(L, -2, ++S->pooled[pool]);
  lua_pop(L, 1);
}

/* ---- wait ---- */

/* Returns the results of an alts that has parked. */
static int resumed(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  Alt *alt = (Alt *)ctx;
  int n = park_resumed(L, alt);
  release_block(L, sched_go(alt)->chan.sched, (int)(lua_rawlen(L, ALT_BLOCK) / sizeof(Waiter)));
  return n;
}

/* Enqueues the operations on shared channels, or does one of them now: another thread may have come between. Returns its
   results, or 0. The local channels must have room for the rest: once other
   threads can complete the alt, nothing may raise. */
static int wait_mixed(lua_State *L, Sched *S, Alt *alt, const Alts *a) {
  for (int i = 0; i < a->n; i++) {
    const AltsOp *op = &a->ops[i];
    if (a->op->waiter & WAITER_UNCOUNTED || chan_is_shared(op->ch) || chan_has_room(op->ch, op->is_put)) continue;
    chan_no_room(L, op->ch, alts_at(i), op->is_put);
  }
  return do_shared(L, S, a, NULL, a->n, alt);
}

/* Enqueues a waiter for each operation. If a queue has no room, nothing is enqueued and it raises. */
static void enqueue_all(lua_State *L, Alt *alt, Waiter *waiters, const Alts *a) {
  const AltsOp *ops = a->ops;
  const Operation *what = a->op;
  const int n = a->n;
  const bool has_room = what->waiter & WAITER_UNCOUNTED || a->mixed;
  alt->state = ALT_PARKED;
  alt->flags |= what->flags;
  alt->own.alts.waiters = waiters;
  waiters->is_weak = false;
  for (int i = 0; i < n; i++) {
    if (UNLIKELY(!has_room && !chan_has_room(ops[i].ch, ops[i].is_put))) {
      alt_withdraw(alt);
      alt->state = ALT_IDLE;
      alt->flags &= (uint8_t)~what->flags;
      chan_no_room(L, ops[i].ch, alts_at(i), ops[i].is_put);
    }
    alt_enqueue(ops[i].ch, &waiters[i], alt, alts_at(i), ops[i].is_put, what->waiter);
    alt->count++;
  }
}

int alts_wait(lua_State *L, Sched *S, Alts *a) {
  Waiter *waiters = NULL;
  for (;;) {
    while (UNLIKELY(a->asked) && some_can(a)) {
      int results = alts_try(L, S, a);
      if (results) return results;
    }
    if (!waiters) waiters = pooled_block(L, S, a->n);
    if (LIKELY(waiters)) break;
    waiters = new_block(L, a->n); /* which may run finalizers: all are tried again */
    int results = alts_try(L, S, a);
    if (results) return results;
  }
  Alt *alt = park_begin(L, S, a->op);
  keep_block(L, S, waiters, ALT_BLOCK);
  for (int i = 0; i < a->n; i++) keep_channel(L, a->ops[i].ch, alts_at(i));
  if (UNLIKELY(a->mixed)) {
    int results = wait_mixed(L, S, alt, a);
    if (results) {
      release_block(L, S, a->n);
      return results;
    }
  }
  enqueue_all(L, alt, waiters, a);
  int results = park_wait(L, S, alt, a->op, resumed);
  release_block(L, S, a->n); /* it gets here outside any go block only */
  return results;
}
