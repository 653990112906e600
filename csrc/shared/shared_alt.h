/* shared_alt.h: operations on channels between threads (shared_chan.h), alone and as part of an alts.

   Each channel has a mutex. An alt that waits on shared channels is a SharedAlt with a waiter in the queue of each of
   them. One compare-and-swap of its state decides it: from ACTIVE to COMMITTED by a thread that completes one of its
   operations, or to GONE by its owner, which has another result or gives up.

   An operation locks all channels of its alt, in the order of their addresses, looks for one that would complete at
   once, and does it, or enqueues a waiter on every channel. As in Go, and unlike core.async, the alt that looks is in
   no queue yet, so only the other side's state has to be swapped. Invariants:

   1. A thread takes locks in ascending order only. Under a lock it allocates and frees nothing, and runs no foreign
      code.

   2. While a waiter is in a queue, its fields change only under the lock of its channel.

   3. Only the owner touches an alt that is in its inbox.

   4. While no channel is locked: no active put and active take of different alts wait on the same channel; no active
      take waits on a channel that has a value or is closed; no active put waits on a channel that has room.

   5. An accepted value is taken once (from a promise: by every taker), or is in the buffer, or was given back.

   A waiter whose alt is no longer active may still be in a queue until its owner has removed it; claim_first skips
   it. */
#ifndef RUNNEL_SHARED_ALT_H
#define RUNNEL_SHARED_ALT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "shared/shared_chan.h"

typedef struct SharedAlt SharedAlt;

typedef enum SharedState {
  SHARED_IDLE,      /* waits on nothing */
  SHARED_ACTIVE,    /* waits: the thread that swaps this for one of the next two decides it */
  SHARED_COMMITTED, /* another thread has completed it, and pushes it to its owner's inbox */
  SHARED_GONE       /* its owner has withdrawn it */
} SharedState;

/* The result of an operation. */
typedef struct SharedResult {
  uint32_t op;       /* index of the operation */
  bool ok;           /* a put was accepted; a take got a value. False: the channel is closed */
  bool has_woken;    /* the other side was asleep and needs time to wake. Set only in the result of shared_do */
  SharedValue value; /* the value of a take; with ok false the reason of the close, or SHARED_NIL. Its number, with ok
                        true: the low 32 bits of the number of the put on this channel, equal for the putter and the
                        taker of a value; 0 for a promise */
} SharedResult;

/* What an operation does. A watch waits until the channel is closed. */
typedef enum SharedOpKind { SHARED_TAKE, SHARED_PUT, SHARED_WATCH } SharedOpKind;

/* One operation of an alt: what to do, and its place in the channel's queue while it waits. */
typedef struct SharedWaiter {
  Link link;         /* in the queue; link.next is NULL when in none */
  SharedAlt *alt;    /* the alt, while it waits */
  Owner *owner;      /* its owner */
  SharedValue value; /* of a put: moved away once it is accepted */
  SharedChan *chan;  /* the channel; the waiting state has a hold */
  uint32_t op;       /* its index in the alt */
  int at;            /* for the owner: the index of the operation on its stack */
  uint8_t kind;      /* a SharedOpKind */
  bool gives_up;     /* a put that completes with ok false when its channel is closed */
  bool drops_reason; /* a take that does not look at the reason of the close */
  bool is_uncounted; /* an operation of the library: does not count against SHARED_MAX_PENDING */
} SharedWaiter;

struct SharedAlt {
  atomic_int state;      /* a SharedState */
  uint32_t count;        /* operations */
  SharedWaiter *waiters; /* the operations, in the order in which they are enqueued */
  Owner *owner;          /* whose inbox it goes to when another thread completes it */
  Arrival arrival;       /* in that inbox */
  SharedResult result;   /* set by the thread that commits it */
};

typedef enum SharedOutcome {
  SHARED_DONE,    /* one operation has completed: see the result */
  SHARED_NONE,    /* none would complete at once; nothing has changed */
  SHARED_WAITS,   /* none would complete at once; all are enqueued, and the alt is active */
  SHARED_TOO_MANY /* operation result->op would exceed SHARED_MAX_PENDING; nothing has changed */
} SharedOutcome;

/* Does the first of the `n` operations that would complete at once. The caller has set their chan, value and kind; an
   accepted put's value is moved away. If none would, and `alt` is not NULL, enqueues them all: then alt.owner is set,
   and alt and ops stay in place until the alt is idle again. `order` has room for n channels; NULL suffices where n is
   1. */
SharedOutcome shared_do(SharedWaiter *ops, uint32_t n, SharedChan **order, SharedAlt *alt, SharedResult *result);

/* Whether a put, or take, would complete right now. Other threads may change that at any time. */
bool shared_can(SharedChan *chan, SharedOpKind kind);

/* Withdraws an active alt. Returns false if another thread has completed it: then it is in the inbox, and its waiters
   have left their queues. */
bool shared_withdraw(SharedAlt *alt);

/* For an alt from the inbox: removes its other waiters from their queues. Then the alt is idle and may be used
   again. */
void shared_settle(SharedAlt *alt);

/* Closes the channel, if it is open, with a reason, or SHARED_NIL. Consumes the reason. */
void shared_close(SharedChan *chan, SharedValue reason);

/* A taken value that cannot be used and is given back. Allocated before the take: later memory may run out. */
typedef struct SharedReturn {
  struct SharedReturn *next; /* in the channel */
  SharedValue value;         /* the value */
} SharedReturn;

/* Gives a value back to the channel from which it was taken: the next take gets it, before all other values, even from
   a closed channel. Consumes `given`, which is from malloc. Not for a promise, which keeps its value. */
void shared_give_back(SharedChan *chan, SharedReturn *given);

#endif
