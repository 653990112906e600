/* alts.h: alts: exactly one of many operations completes.

   alts_try finds the operations that would complete at once and does one of them: each is equally likely, or with
   `priority` the first. Nothing is enqueued yet, so two operations of one alts cannot complete each other. If none
   would complete, alts_wait enqueues a waiter for each, parks, and returns the results of the one that completes. It
   first enqueues those on shared channels, under the locks of all their channels (wait_shared).

   If user code runs between the try and the enqueueing, alts_wait tries all again: a buffer policy, or a finalizer that
   an allocation ran, may have used channels that were tried before.

   The caller's stack is that of an alts (alt_state.h), with nil at ALT_BLOCK. */
#ifndef RUNNEL_ALTS_H
#define RUNNEL_ALTS_H

#include "core/state.h"

/* One operation of an alts. */
typedef struct AltsOp {
  Chan *ch;    /* its channel, which is on the stack at alts_at */
  bool is_put; /* a put, its value one slot further, or a take */
  bool passed; /* it was ready when asked, but not when tried: do not choose it again */
} AltsOp;

typedef struct Alts {
  const Operation *op; /* the function that was called */
  AltsOp *ops;         /* the operations */
  int n;               /* their number */
  bool priority;       /* the first ready operation wins */
  bool asked;          /* a policy was asked at the last try */
  bool mixed;          /* some tried operations are on shared channels (shared_ops.h) */
} Alts;

/* Index of the channel of the i-th operation, from 0 on. */
static inline int alts_at(int i) { return ALT_FIRST_OP + 2 * i; }

/* Completes one of the operations, if one would complete at once. Pushes value, port, and the reason of a closed
   channel, and returns how many; or 0. Raises what a policy raises. */
int alts_try(lua_State *L, Sched *S, Alts *a);

/* Waits until one of the operations completes, after alts_try has found none. Returns the number of results, which are
   on top of L. Must be the last call of a C function, like park_wait. */
int alts_wait(lua_State *L, Sched *S, Alts *a);

#endif
