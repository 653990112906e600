/* alt.h: how an operation waits, and how it ends: enqueue, withdraw, commit, wake. Nothing here allocates or raises.

   The code that completes an operation commits its alt, which withdraws all waiters of the alt at once, and wakes its
   owner with the results. So no waiter in a queue is committed (core.async leaves dead ones there, to purge later). */
#ifndef RUNNEL_ALT_H
#define RUNNEL_ALT_H

#include "core/others.h"
#include "core/state.h"
#include "lifetimes/root.h"

/* ---- enqueue and withdraw ---- */

/* Enqueues a waiter of `alt` on the channel at index `at` of alt->co. The queue has room, or it is WAITER_UNCOUNTED. */
static inline void alt_enqueue(Chan *ch, Waiter *w, Alt *alt, int at, bool is_put, uint8_t flags) {
  w->chan = ch;
  w->alt = alt;
  w->at = at;
  w->is_put = is_put;
  w->flags = flags;
  list_append(&ch->queues[is_put], &w->link);
  ch->waiting[is_put]++;
}

/* Enqueues the only waiter of `alt`, for `op`, and so parks it. */
static inline void alt_enqueue_single(Chan *ch, Alt *alt, int at, const Operation *op) {
  alt->state = ALT_PARKED;
  alt->flags |= op->flags;
  alt->count = 1;
  alt_enqueue(ch, &alt->own.waiter, alt, at, op->is_put, op->waiter);
}

/* Removes a waiter from its queue. */
static inline void alt_dequeue(Waiter *w) {
  list_remove(&w->chan->queues[w->is_put], &w->link);
  w->chan->waiting[w->is_put]--;
}

/* Removes every waiter of an alt from its queue. Some may have left: a weak root's that was not active any more
   (alt_drop_first), and one that another thread has completed. */
static inline void alt_withdraw(Alt *alt) {
  Waiter *waiters = alt_waiters(alt);
  for (uint32_t i = 0; i < alt->count; i++) {
    if (LIKELY(waiters[i].link.next)) alt_dequeue(&waiters[i]);
  }
  alt->count = 0;
}

/* Removes an alt from where it waits, in this world or an outer one: queues, timers or the run queue. */
void alt_stop_waiting(Sched *S, Alt *alt);

/* Removes the first waiter of a queue, whose alt is not active any more. Its go block ends when the loop resumes it. */
void alt_drop_first(Chan *ch, bool is_put);

/* ---- commit and wake ---- */

/* Commits an alt: nothing else can complete it. The caller has withdrawn it from shared channels, and must wake it. */
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

/* Pushes what an alts returns besides the value: the port at index `at` of co, or the number of the operation. Returns
   how many values it pushed: 0 for a single operation. */
static inline int alt_push_port(lua_State *co, uint8_t alt_flags, int at) {
  if (LIKELY(!(alt_flags & ALT_SELECT))) return 0;
  if (alt_flags & ALT_INDEX) lua_pushinteger(co, (at - ALT_FIRST_OP) / 2 + 1);
  else lua_pushvalue(co, at);
  return 1;
}

#endif
