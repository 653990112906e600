/* alts.c: see alts.h. */
#include "blocks/alts.h"

#include <lauxlib.h>

#include "base/random.h"
#include "blocks/park.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "channels/chan_custom.h"
#include "core/sim_rules.h"
#include "lifetimes/keep.h"
#include "states/shared_ops.h"

/* ---- try ---- */

/* Whether the i-th operation would complete at once. May ask a policy, and so raise. */
static inline bool can(lua_State *L, const AltsOp *op, int i) {
  if (LIKELY(!(op->ch->flags & CHAN_SPECIAL))) return chan_can(op->ch, op->is_put);
  return !op->passed && op->ch->ops->can(L, op->ch, alts_at(i), op->is_put);
}

/* The choice of a simulation among the `ready` operations; or `chosen`, if a policy has changed its mind. */
NOINLINE static int choose_by_rules(lua_State *L, Sched *S, const Alts *a, uint32_t ready, int chosen) {
  if (!S->world.rules->choose_operation) return chosen;
  uint32_t left = S->world.rules->choose_operation(S, ready);
  for (int i = 0; i < a->n; i++) {
    if (can(L, &a->ops[i], i) && left-- == 0) return i;
  }
  return chosen;
}

/* Returns which of the first `n` operations to do, or -1 if none would complete. Sets a->asked and a->mixed. */
static int choose(lua_State *L, Sched *S, Alts *a, int n) {
  const AltsOp *ops = a->ops;
  const bool priority = a->priority;
  int chosen = -1;
  uint32_t ready = 0;
  for (int i = 0; i < n; i++) {
    const Chan *ch = ops[i].ch;
    if (UNLIKELY(ch->flags & CHAN_SPECIAL)) {
      a->asked |= ch->buf.kind == BUFFER_POLICY;
      a->mixed |= chan_is_shared(ch);
    }
    if (!can(L, &ops[i], i)) continue;
    /* The k-th ready one replaces the choice with probability 1/k: so all are equally likely. */
    ready++;
    if (ready == 1 || random_below(&S->world.random, ready) == 0) chosen = i;
    if (priority) break;
  }
  if (UNLIKELY(ready > 1) && S->world.rules) return choose_by_rules(L, S, a, ready, chosen);
  return chosen;
}

/* Chooses among all operations. Other threads use shared channels meanwhile: one may put on a channel that was looked
   at, and then on the chosen one. So with `priority` it looks again at the operations before the chosen one. */
static int choose_any(lua_State *L, Sched *S, Alts *a) {
  a->asked = false;
  int chosen = choose(L, S, a, a->n);
  while (UNLIKELY(a->mixed) && a->priority && chosen > 0) {
    int before = choose(L, S, a, chosen);
    if (before < 0) break;
    chosen = before;
  }
  return chosen;
}

int alts_try(lua_State *L, Sched *S, Alts *a) {
  int chosen;
  while ((chosen = choose_any(L, S, a)) >= 0) {
    AltsOp *op = &a->ops[chosen];
    int at = alts_at(chosen), n = chan_try(L, op->ch, at, op->is_put);
    if (LIKELY(n)) {
      n += alt_push_port(L, a->op->flags, at);
      if (n == 3) lua_insert(L, -2); /* the reason comes last */
      return n;
    }
    op->passed = true; /* its policy has changed its mind, or another thread came first */
  }
  if (UNLIKELY(S->inside)) { /* perhaps user code of a channel, which must not use that channel */
    for (int i = 0; i < a->n; i++) chan_custom_check_busy(L, a->ops[i].ch, alts_at(i));
  }
  return 0;
}

/* Whether an operation would complete at once, as far as that is known without asking a policy. */
static bool some_can(const Alts *a) {
  for (int i = 0; i < a->n; i++) {
    const AltsOp *op = &a->ops[i];
    const Chan *ch = op->ch;
    if (op->passed || chan_is_shared(ch)) continue;
    if (ch->buf.kind != BUFFER_POLICY && chan_can(ch, op->is_put)) return true;
    if (ch->flags & CHAN_CLOSED || ch->waiting[!op->is_put]) return true;
  }
  return false;
}

/* ---- blocks of waiters: userdata of two sizes; the scheduler keeps some ---- */

static const int BLOCK_SIZES[SCHED_POOLS] = {8, 64};

/* The pool for n waiters, or SCHED_POOLS. */
static int pool_for(int n) {
  int pool = 0;
  while (pool < SCHED_POOLS && n > BLOCK_SIZES[pool]) pool++;
  return pool;
}

/* Stores a block for n waiters from a pool at ALT_BLOCK, or returns NULL. */
static Waiter *pooled_block(lua_State *L, Sched *S, int n) {
  int pool = pool_for(n);
  if (pool == SCHED_POOLS || S->pooled[pool] == 0) return NULL;
  lua_getiuservalue(L, SCHED_SELF, SCHED_POOL + pool);
  lua_rawgeti(L, -1, S->pooled[pool]--);
  lua_replace(L, ALT_BLOCK);
  lua_pop(L, 1);
  return (Waiter *)lua_touserdata(L, ALT_BLOCK);
}

/* Stores a new block for n waiters at ALT_BLOCK. May raise. */
static Waiter *new_block(lua_State *L, int n) {
  int pool = pool_for(n), size = pool < SCHED_POOLS ? BLOCK_SIZES[pool] : n;
  Waiter *block = (Waiter *)lua_newuserdatauv(L, (size_t)size * sizeof(Waiter), 0);
  for (int i = 0; i < size; i++) block[i] = (Waiter){.link = {NULL, NULL}};
  lua_replace(L, ALT_BLOCK);
  return block;
}

/* Returns the block of n waiters to its pool, whose table has room for it. Allocates nothing. */
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

/* Enqueues the operations on shared channels, or does one that another thread has made ready and returns its results;
   else 0. First checks the local channels' room: once other threads can complete the alt, nothing may raise. */
static int wait_shared(lua_State *L, Sched *S, Alt *alt, const Alts *a) {
  uint32_t shared = 0;
  for (int i = 0; i < a->n; i++) {
    const AltsOp *op = &a->ops[i];
    bool has_room = a->op->waiter & WAITER_UNCOUNTED || chan_has_room(op->ch, op->is_put);
    if (chan_is_shared(op->ch)) shared++;
    else if (!has_room) chan_no_room(L, op->ch, alts_at(i), op->is_put);
  }
  SharedWait *wait = shared_ops_begin(L, S, shared);
  for (int i = 0; i < a->n; i++) {
    const AltsOp *op = &a->ops[i];
    if (chan_is_shared(op->ch)) shared_ops_add(L, wait, alts_at(i), alts_at(i), op->is_put, a->op);
  }
  if (!a->priority) shared_ops_draw(S, wait, a->op->flags & ALT_INDEX);
  return shared_ops_do(L, S, wait, alt, a->op->flags);
}

static inline Waiter *waiter_of(Link *link) { return CONTAINER_OF(link, Waiter, link); }

/* An alt was just enqueued, so its operations on the same channel are the last ones in its queue, and the first of them
   completes first: makes each of them the first with the same probability. */
NOINLINE static void draw_firsts(Sched *S, Alt *alt) {
  const SimRules *rules = S->world.rules;
  for (uint32_t i = 0, n = 1; i < alt->count; i++, n = 1) {
    Waiter *first = &alt_waiters(alt)[i], *drawn = first;
    const Link *head = first->chan->queues[first->is_put].first;
    bool is_all_same = !first->is_put && !(alt->flags & ALT_INDEX); /* these takes return the same port */
    if (head->prev != &first->link || is_all_same || chan_is_shared(first->chan)) continue;
    for (; &first->link != head && waiter_of(first->link.prev)->alt == alt; n++) first = waiter_of(first->link.prev);
    if (n == 1) continue;
    uint32_t k = rules && rules->choose_operation ? rules->choose_operation(S, n) : random_below(&S->world.random, n);
    while (++k < n) drawn = waiter_of(drawn->link.prev); /* back from the last one */
    int at = first->at;
    first->at = drawn->at;
    drawn->at = at;
  }
}

/* Enqueues a waiter for each operation. Raises if a queue has no room, and then has enqueued none. */
static void enqueue_all(lua_State *L, Sched *S, Alt *alt, Waiter *waiters, const Alts *a) {
  const AltsOp *ops = a->ops;
  const Operation *what = a->op;
  const int n = a->n;
  const bool has_room = what->waiter & WAITER_UNCOUNTED || a->mixed;
  bool compete = false; /* some operations are on the same channel */
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
    const Link *head = ops[i].ch->queues[ops[i].is_put].first;
    if (UNLIKELY(head != NULL) && waiter_of(head->prev)->alt == alt) compete = true;
    alt_enqueue(ops[i].ch, &waiters[i], alt, alts_at(i), ops[i].is_put, what->waiter);
    alt->count++;
  }
  if (UNLIKELY(compete) && !a->priority) draw_firsts(S, alt);
}

int alts_wait(lua_State *L, Sched *S, Alts *a) {
  Waiter *waiters = pooled_block(L, S, a->n);
  bool again = !waiters;
  if (UNLIKELY(again)) waiters = new_block(L, a->n); /* a finalizer may have run: tries all again */
  while (UNLIKELY(again || (a->asked && some_can(a)))) {
    again = false;
    int results = alts_try(L, S, a);
    if (!results) continue;
    release_block(L, S, a->n);
    return results;
  }
  Alt *alt = park_begin(L, S, a->op);
  keep_make_room(L, S, (uint32_t)a->n + 1);
  keep_block(L, S, waiters, ALT_BLOCK);
  for (int i = 0; i < a->n; i++) keep_channel(L, a->ops[i].ch, alts_at(i));
  int results = UNLIKELY(a->mixed) ? wait_shared(L, S, alt, a) : 0;
  if (!results) {
    enqueue_all(L, S, alt, waiters, a);
    results = park_wait(L, S, alt, a->op, resumed); /* returns only outside any go block */
  }
  release_block(L, S, a->n);
  return results;
}
