/* alt.h: operations on channels between threads (chan.h), alone and of an alt.

   Each channel has a mutex. An alt that waits on shared channels is a SharedAlt with a waiter in the queue of each of
   them. It is decided by one compare-and-swap of its state, from ACTIVE to COMMITTED by a thread that completes one of
   its operations, or to GONE by its owner, who has another result or gives up.

   An operation locks all channels of its alt, in the order of their addresses, looks for one that can be done, and does
   it or enqueues a waiter on every one. As in Go, and unlike core.async, the alt that looks is in no queue yet, so only
   the other side's state has to be swapped. Invariants:

   1. Locks are taken in ascending order only. Under a lock nothing is allocated or freed, and no foreign code runs.

   2. While a waiter is in a queue, its fields change only under the lock of its channel.

   3. Only the owner touches an alt that is in its owner's inbox.

   4. While no channel is locked: no active put and active take of different alts wait on the same channel; no active
   take waits on a channel that has a value or is closed; no active put waits on a channel that has room.

   5. A value that was accepted is taken once (from a promise: by every taker), or is in the buffer, or was given back.

   A waiter whose alt is no longer active may still be in a queue until its owner has removed it; claim_first skips
   it. */
#ifndef RUNNEL_SHARED_ALT_H
#define RUNNEL_SHARED_ALT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "shared/chan.h"

typedef struct SharedAlt SharedAlt;

typedef enum SharedState {
  SHARED_IDLE,      /* waits on nothing */
  SHARED_ACTIVE,    /* waits: the thread that swaps this for one of the next two decides it */
  SHARED_COMMITTED, /* another thread has completed it, and pushes it to its owner's inbox */
  SHARED_GONE       /* its owner has withdrawn it */
} SharedState;

/* What an operation brought. */
typedef struct SharedResult {
  uint32_t op;       /* index of the operation */
  bool ok;           /* a put was accepted; a take got a value. False: the channel is closed */
  bool has_woken;    /* the other side was asleep, and will need some time. Only as shared_do returns it */
  SharedValue value; /* the value taken; with ok false the reason of the close, or SHARED_NIL. Its number with ok true:
                        the low 32 bits of the number of the put on this channel, which is the same for the one who
                        puts the value and the one who takes it; 0 for a promise */
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
  int at;            /* for the owner's use */
  uint8_t kind;      /* a SharedOpKind */
  bool gives_up;     /* a put that completes with ok false when its channel is closed */
  bool drops_reason; /* a take that does not look at the reason of the close */
  bool is_uncounted; /* one of the library's own: does not count against SHARED_MAX_PENDING */
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
  SHARED_DONE,    /* one operation is done: see the result */
  SHARED_NONE,    /* none could be done at once; nothing has happened */
  SHARED_WAITS,   /* none could be done at once; each is enqueued, and the alt is active */
  SHARED_TOO_MANY /* one of them (result->op) would exceed SHARED_MAX_PENDING; nothing has happened */
} SharedOutcome;

/* Does the first of the `n` operations that can be done at once. Their chan, value and kind are set; the value of a
   put that was accepted is moved away. If none can, and `alt` is not NULL, enqueues them all: alt.owner is set, alt
   and ops stay where they are until it is idle again. `order` has room for n channels; NULL will do where n is 1. */
SharedOutcome shared_do(SharedWaiter *ops, uint32_t n, SharedChan **order, SharedAlt *alt, SharedResult *result);

/* Whether a put, or take, could be done right now. Other threads may change that at any time. */
bool shared_can(SharedChan *chan, SharedOpKind kind);

/* Withdraws an active alt. False when another thread has completed it: then it is in the inbox, and its waiters have
   left their queues. */
bool shared_withdraw(SharedAlt *alt);

/* For an alt out of the inbox: takes its other waiters out of their queues, unless that was done. The alt is idle then,
   and may be used again. */
void shared_settle(SharedAlt *alt);

/* Closes the channel with a reason, or SHARED_NIL. If it is closed already, nothing happens. Takes the reason over. */
void shared_close(SharedChan *chan, SharedValue reason);

/* A value that was taken and could not be used, to be given back. Allocated before the take, since that is when
   memory may run out. */
typedef struct SharedReturn {
  struct SharedReturn *next; /* in the channel */
  SharedValue value;         /* the value */
} SharedReturn;

/* Gives a value back to the channel that it was taken from: the next take gets it, before all others and also if the
   channel is closed. `given`, from malloc, is the channel's then. Not for a promise, which has kept the value. */
void shared_give_back(SharedChan *chan, SharedReturn *given);

#endif
