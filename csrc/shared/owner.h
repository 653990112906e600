/* owner.h: a scheduler as other threads see it: an inbox for alts of its go blocks that other threads have committed, a
   way to wake it, and when it last looked at the clock.

   Many threads push, one pops. A thread that has pushed checks whether the owner is asleep, and wakes it. The owner
   first sets `asleep` and then checks whether the inbox is empty. Both sides write before they read, with sequential
   consistency, so at least one of the two sees the other's write: no wakeup is lost.

   A thread pushes under the lock of a channel, and uses the owner until it unlocks the channel. So an owner locks each
   of its channels once more before it ends (shared_chan_pass). */
#ifndef RUNNEL_SHARED_OWNER_H
#define RUNNEL_SHARED_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/cache.h"

/* The place of a committed alt in an inbox: a part of a SharedAlt (shared_chan.h). */
typedef struct Arrival {
  struct Arrival *next; /* the next one, or NULL */
} Arrival;

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): two cache lines */
typedef struct Owner {
  _Atomic(Arrival *) inbox; /* committed alts, the newest first */
  atomic_bool asleep;       /* it waits, or is about to: a thread that pushes must wake it */
  /* In another cache line, since a push does not need it: */
  _Alignas(CACHE_LINE) atomic_uint holds; /* of the scheduler, of threads that are about to wake it, and of its Status
                                             (status.h) */
  _Atomic(int64_t) looked;                /* when its loop last looked at the clock, in ns; 0: it has not run yet */
  _Atomic(int64_t) job;                   /* in a thread of a pool: the number of the job that it began last, or 0 */
  void (*wake)(void *data);               /* wakes it; any thread */
  void *data;                             /* what wake gets */
  void (*drop)(void *data);               /* called with data when the owner is freed; or NULL */
} Owner;

/* A new owner with one hold, or NULL when memory runs out. */
Owner *owner_new(void (*wake)(void *data), void (*drop)(void *data), void *data);

/* Adds a hold; drops one. Any thread. */
Owner *owner_hold(Owner *owner);
void owner_release(Owner *owner);

/* Pushes an alt that the caller has committed, under the lock of one of the alt's channels. The caller must not touch
   the alt after this. Returns whether the owner is asleep, and the caller must call owner_wake; it needs a hold for
   that if it leaves the lock first. */
bool owner_push(Owner *owner, Arrival *alt);

/* Wakes the owner if it sleeps. Any thread, without locks. */
void owner_wake(Owner *owner);

/* ---- for the owner's own thread ---- */

/* Takes all alts out of the inbox, the oldest first, or NULL. */
Arrival *owner_pop_all(Owner *owner);

/* Whether the inbox is empty: one load, for every turn of the loop. */
static inline bool owner_is_empty(Owner *owner) { return !atomic_load_explicit(&owner->inbox, memory_order_acquire); }

/* Marks the owner as asleep. Returns false if the inbox is not empty: then the owner is awake, and must not sleep. */
bool owner_sleep(Owner *owner);

/* Marks it as awake again. */
void owner_awake(Owner *owner);

/* Notes that its loop has looked at the clock: other threads can see for how long it has run or waited since. */
static inline void owner_looked(Owner *owner, int64_t now) {
  atomic_store_explicit(&owner->looked, now, memory_order_relaxed);
}

#endif
