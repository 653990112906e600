/* alt.h: how an operation waits, and how it ends: enqueue, withdraw, commit, wake.

   Whoever completes an operation commits its alt (state.h), which withdraws all waiters of the alt at once, and wakes
   its owner with the results. So a waiter that is in a queue has not been committed. (core.async leaves dead waiters in
   the queues and purges them later.)

   Nothing here allocates or raises. */
#ifndef RUNNEL_ALT_H
#define RUNNEL_ALT_H

#include "core/others.h"
#include "core/state.h"
#include "lifetimes/root.h"

/* ---- enqueue and withdraw ---- */

/* Enqueues a waiter of `alt` on a channel, which is at index `at` of alt->co. `flags` are of WaiterFlag: without
   WAITER_UNCOUNTED there must be room in the queue. */
static inline void alt_enqueue(Chan *ch, Waiter *w, Alt *alt, int at, bool is_put, uint8_t flags) {
  w->chan = ch;
  w->alt = alt;
  w->at = at;
  w->is_put = is_put;
  w->flags = flags;
  list_append(&ch->queues[is_put], &w->link);
  ch->waiting[is_put]++;
}

/* Enqueues the only waiter of `alt`, for `op`. It is parked from here on. */
static inline void alt_enqueue_single(Chan *ch, Alt *alt, int at, const Operation *op) {
  alt->state = ALT_PARKED;
  alt->flags |= op->flags;
  alt->count = 1;
  alt_enqueue(ch, &alt->own.waiter, alt, at, op->is_put, op->waiter);
}

/* Takes a waiter out of its queue. */
static inline void alt_dequeue(Waiter *w) {
  list_remove(&w->chan->queues[w->is_put], &w->link);
  w->chan->waiting[w->is_put]--;
}

/* Takes every waiter of an alt out of its queue. Some may have left theirs already: one of a weak root that was not
   active any more (alt_drop_first), and one that another thread has completed. */
static inline void alt_withdraw(Alt *alt) {
  Waiter *waiters = alt_waiters(alt);
  for (uint32_t i = 0; i < alt->count; i++) {
    if (LIKELY(waiters[i].link.next)) alt_dequeue(&waiters[i]);
  }
  alt->count = 0;
}

/* Takes an alt out of wherever it waits, in this world or an outer one: queues, timers or the run queue. */
void alt_stop_waiting(Sched *S, Alt *alt);

/* Takes the first waiter out of a queue of puts, or takes, because its alt is not active any more. Its go block ends at
   the latest when the loop comes to it. */
void alt_drop_first(Chan *ch, bool is_put);

/* ---- commit and wake ---- */

/* Commits an alt: nobody else can complete it any more. The caller must wake it next, and has withdrawn it from its
   shared channels (others.h). */
static inline void alt_commit(lua_State *L, Sched *S, Alt *alt) {
  if (UNLIKELY(alt->flags & ALT_WEAK)) root_promote(L, S, sched_go(alt));
  alt_withdraw(alt);
}

/* Puts a go block at the end of the run queue. */
static inline void alt_make_ready(Sched *S, Alt *alt) {
  alt->state = ALT_READY;
  list_append(&S->world.ready, &alt->own.waiter.link);
  S->world.nready++;
}

/* Wakes the owner of a committed alt, whose `nresults` results are on its stack. */
static inline void alt_wake(Sched *S, Alt *alt, int nresults) {
  alt->nresults = (uint16_t)nresults;
  if (LIKELY(alt != &S->outside)) {
    alt_make_ready(S, alt);
  } else {
    alt->state = ALT_READY;
    S->stop = true;
  }
}

/* Commits an alt whose results are on its stack and wakes its owner. */
static inline void alt_complete(lua_State *L, Sched *S, Alt *alt, int nresults) {
  alt_commit(L, S, alt);
  alt_wake(S, alt, nresults);
}

/* ---- the results of an alts ---- */

/* Pushes onto co what an alts returns besides the value: the port at index `at`, or the number of its operation.
   Returns how many it pushed: 0 for a single operation. */
static inline int alt_push_port(lua_State *co, uint8_t alt_flags, int at) {
  if (LIKELY(!(alt_flags & ALT_SELECT))) return 0;
  if (alt_flags & ALT_INDEX) lua_pushinteger(co, (at - ALT_FIRST_OP) / 2 + 1);
  else lua_pushvalue(co, at);
  return 1;
}

#endif
