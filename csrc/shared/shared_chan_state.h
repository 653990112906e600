/* shared_chan_state.h: the state of a shared channel. For shared_chan.c and shared_alt.c. */
#ifndef RUNNEL_SHARED_CHAN_STATE_H
#define RUNNEL_SHARED_CHAN_STATE_H

#include <pthread.h>

#include "base/buffer.h"
#include "base/compat.h"
#include "base/list.h"
#include "shared/cache.h"
#include "shared/shared_alt.h"

/* The fields that each operation uses come first, in few cache lines: these move from one processor to another. */
struct SharedChan {
  pthread_mutex_t lock;   /* guards all below but `holds`, `memory` and `id`. Never held while Lua runs or memory is
                             allocated */
  List puts;              /* SharedWaiter.link of waiting puts, first in, first out */
  List takes;             /* of waiting takes */
  uint32_t nputs;         /* how many */
  uint32_t ntakes;        /* how many */
  uint64_t put_total;     /* values accepted */
  uint64_t take_total;    /* values taken */
  SharedReturn *returned; /* values that were given back, which the next takes get */
  SharedValue *slots;     /* the buffer's values; NULL without a buffer */
  Budget *budget;         /* of which the slots are taken, or NULL */
  Buffer buf;             /* the buffer's state; all its slots are there from the start */
  bool closed;            /* no more puts */
  bool reason_taken;      /* a take has got the reason */
  SharedValue reason;     /* with which it was closed */
  List watches;           /* of watches */
  atomic_uint holds;      /* of all states and threads that may use the channel */
  atomic_uint memory;     /* holds, and threads that are about to drop theirs; the last one frees the channel */
  uint64_t id;            /* constant */
  SharedChan *next;       /* in a list of channels to be freed */
  char name[SHARED_NAME_MAX + 1];
};

/* Locks the channel. Other threads hold the lock for less than a microsecond, unless the system stops them: to try for
   that long is cheaper than to sleep. */
static inline void shared_chan_lock(SharedChan *chan) {
  enum { TRIES = 32 };
  PREFETCH_TO_WRITE(&chan->put_total); /* the next cache line */
  for (int i = 0; i < TRIES; i++) {
    if (pthread_mutex_trylock(&chan->lock) == 0) return;
    PAUSE_BRIEFLY(); /* seldom covered: another thread has the lock just then */
  }
  (void)pthread_mutex_lock(&chan->lock); /* seldom covered: see above */
}

/* The waiter with this link. */
static inline SharedWaiter *shared_waiter_of(Link *link) { return CONTAINER_OF(link, SharedWaiter, link); }

/* Whether fewer than SHARED_MAX_PENDING of the waiters in a queue count. */
static inline bool shared_few_count(const List *queue) {
  uint32_t n = 0;
  for (Link *link = queue->first; link; link = list_next(queue, link)) {
    if (!shared_waiter_of(link)->is_uncounted && ++n == SHARED_MAX_PENDING) return false;
  }
  return true;
}

#endif
