/* alts.h: alts: many operations, of which exactly one happens.

   alts_try finds the operations that can complete at once and does one of them: each is equally likely, or with
   `priority` the first. Nothing is enqueued yet, so two operations of one alts cannot complete each other. If none can
   complete, alts_wait enqueues a waiter for each, parks, and returns the results of the one that completes.

   Operations on shared channels are enqueued first, under the locks of all their channels (wait_shared).

   If user code runs between trying and enqueueing, all operations are tried again: a buffer policy that was asked, or a
   finalizer that an allocation ran, may have used channels that were tried before.

   The caller's stack is that of an alts (alt_state.h), with nil at ALT_BLOCK. */
#ifndef RUNNEL_ALTS_H
#define RUNNEL_ALTS_H

#include "core/state.h"

/* One operation of an alts. */
typedef struct AltsOp {
  Chan *ch;    /* its channel, which is on the stack at alts_at */
  bool is_put; /* a put, its value one slot further, or a take */
  bool passed; /* it could be done when asked, but not when tried: not to be chosen again */
} AltsOp;

typedef struct Alts {
  const Operation *op; /* the function that was called */
  AltsOp *ops;         /* the operations */
  int n;               /* how many */
  bool priority;       /* try them in the order given */
  bool asked;          /* a policy was asked at the last try */
  bool mixed;          /* some operations that were tried are on shared channels (chan_shared.h) */
} Alts;

/* Index of the channel of the i-th operation, from 0 on. */
static inline int alts_at(int i) { return ALT_FIRST_OP + 2 * i; }

/* Completes one of the operations, if that can be done at once. Pushes value, port, and the reason of a closed channel,
   and returns how many; or 0. Raises what a policy raises. */
int alts_try(lua_State *L, Sched *S, Alts *a);

/* Waits until one of the operations is completed, after alts_try has found none. Returns the number of results, which
   are on top of L. Must be the last thing that a C function does, as park_wait. */
int alts_wait(lua_State *L, Sched *S, Alts *a);

#endif
