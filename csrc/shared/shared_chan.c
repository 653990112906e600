/* shared_chan.c: see shared_chan.h. */
#include "shared/shared_chan.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shared/after.h"
#include "shared/cache.h"
#include "shared/shared_chan_state.h"

/* ---- life ---- */

SharedChan *shared_chan_new(BufferKind kind, uint32_t limit, Budget *budget) {
  SharedChan *chan = (SharedChan *)cache_new(sizeof *chan);
  if (!chan) return NULL;
  if (limit) {
    /* All slots at once, since a thread must not allocate under the lock. Unused pages of a large buffer cost
       nothing. */
    bool may = budget_take(budget, limit * sizeof(SharedValue));
    if (may) chan->slots = (SharedValue *)calloc(limit, sizeof(SharedValue));
    if (may && !chan->slots) budget_give(budget, limit * sizeof(SharedValue));
    if (!chan->slots) {
      cache_free(chan);
      return NULL;
    }
    chan->budget = budget;
  }
  atomic_init(&chan->holds, 1);
  atomic_init(&chan->memory, 1);
  (void)pthread_mutex_init(&chan->lock, NULL);
  chan->buf = (Buffer){.limit = limit, .size = limit, .kind = (uint8_t)kind};
  /* The next channel at this address is made later. */
  chan->id = (uint64_t)(uintptr_t)chan << 16 ^ (uint64_t)clock_ns();
  return chan;
}

SharedChan *shared_chan_hold(SharedChan *chan) {
  atomic_fetch_add_explicit(&chan->memory, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&chan->holds, 1, memory_order_relaxed);
  return chan;
}

/* Wakes the owner that waits on the channel. With one hold left, at most one owner waits. */
static void wake_last(SharedChan *chan) {
  After after = {0};
  List *const queues[] = {&chan->takes, &chan->puts, &chan->watches};
  (void)pthread_mutex_lock(&chan->lock);
  for (int i = 0; i < 3 && !after.nowners; i++) {
    if (queues[i]->first) after_note(&after, owner_hold(shared_waiter_of(queues[i]->first)->alt->owner));
  }
  (void)pthread_mutex_unlock(&chan->lock);
  after_finish(&after);
}

void shared_chan_let_go(SharedChan *chan, SharedChan **unheld) {
  if (atomic_fetch_sub(&chan->holds, 1) == 2) wake_last(chan);
  if (atomic_fetch_sub_explicit(&chan->memory, 1, memory_order_acq_rel) > 1) return;
  chan->next = *unheld;
  *unheld = chan;
}

/* Frees a channel; those that then nothing holds are added to the list. */
static void free_one(SharedChan *chan, SharedChan **unheld) {
  while (chan->returned) {
    SharedReturn *first = chan->returned;
    chan->returned = first->next;
    shared_value_let_go(&first->value, unheld);
    free(first);
  }
  while (chan->buf.count) {
    shared_value_let_go(&chan->slots[chan->buf.head], unheld);
    buffer_advance(&chan->buf);
  }
  shared_value_let_go(&chan->reason, unheld);
  (void)pthread_mutex_destroy(&chan->lock);
  if (chan->slots) budget_give(chan->budget, chan->buf.limit * sizeof(SharedValue));
  free(chan->slots);
  cache_free(chan);
}

void shared_chan_free(SharedChan *unheld) {
  while (unheld) {
    SharedChan *chan = unheld;
    unheld = chan->next;
    free_one(chan, &unheld);
  }
}

void shared_chan_release(SharedChan *chan) {
  SharedChan *unheld = NULL;
  shared_chan_let_go(chan, &unheld);
  shared_chan_free(unheld);
}

uint32_t shared_chan_holds(const SharedChan *chan) { return atomic_load(&chan->holds); }

uint64_t shared_chan_id(const SharedChan *chan) { return chan->id; }

uint32_t shared_chan_limit(const SharedChan *chan) { return chan->buf.limit; }

void shared_chan_set_name(SharedChan *chan, const char *name) {
  (void)pthread_mutex_lock(&chan->lock);
  strncpy(chan->name, name, SHARED_NAME_MAX);
  (void)pthread_mutex_unlock(&chan->lock);
}

void shared_chan_get_name(SharedChan *chan, char name[SHARED_NAME_MAX + 1]) {
  (void)pthread_mutex_lock(&chan->lock);
  memcpy(name, chan->name, SHARED_NAME_MAX + 1);
  (void)pthread_mutex_unlock(&chan->lock);
}

void shared_chan_pass(SharedChan *chan) {
  shared_chan_lock(chan);
  (void)pthread_mutex_unlock(&chan->lock);
}

/* ---- looking ---- */

/* The number of an owner's waiters in a queue. */
static uint32_t count_of(const List *queue, const Owner *owner) {
  uint32_t n = 0;
  for (Link *link = queue->first; link; link = list_next(queue, link)) {
    const SharedAlt *alt = shared_waiter_of(link)->alt;
    if (alt->owner == owner && atomic_load(&alt->state) == SHARED_ACTIVE) n++;
  }
  return n;
}

SharedCounts shared_chan_waiting(SharedChan *chan, const Owner *owner) {
  (void)pthread_mutex_lock(&chan->lock);
  SharedCounts counts = {.takes = count_of(&chan->takes, owner), .puts = count_of(&chan->puts, owner)};
  (void)pthread_mutex_unlock(&chan->lock);
  return counts;
}

ChanStats shared_chan_stats(SharedChan *chan) {
  (void)pthread_mutex_lock(&chan->lock);
  uint32_t count = chan->buf.count;
  for (const SharedReturn *given = chan->returned; given; given = given->next) count++;
  ChanStats stats = {.kind = (BufferKind)chan->buf.kind,
                     .limit = chan->buf.limit,
                     .count = count,
                     .ntakes = chan->ntakes,
                     .nputs = chan->nputs,
                     .puts = chan->put_total,
                     .takes = chan->take_total,
                     .closed = chan->closed,
                     .reason_taken = chan->reason_taken,
                     .puts_full = chan->nputs >= SHARED_MAX_PENDING && !shared_few_count(&chan->puts),
                     .takes_full = chan->ntakes >= SHARED_MAX_PENDING && !shared_few_count(&chan->takes)};
  (void)pthread_mutex_unlock(&chan->lock);
  return stats;
}

/* The number of active waiters in a queue; checks that the queue has `count` waiters in all. */
static uint32_t count_active(const List *queue, uint32_t count, const SharedAlt **alt) {
  uint32_t active = 0;
  Link *link = queue->first;
  for (uint32_t i = 0; i < count; i++, link = link->next) {
    assert(link && shared_waiter_of(link)->link.next);
    if (atomic_load(&shared_waiter_of(link)->alt->state) != SHARED_ACTIVE) continue;
    *alt = shared_waiter_of(link)->alt;
    active++;
  }
  assert(link == queue->first);
  return active;
}

void shared_chan_check(SharedChan *chan) {
  (void)pthread_mutex_lock(&chan->lock);
  const SharedAlt *put = NULL, *take = NULL;
  uint32_t puts = count_active(&chan->puts, chan->nputs, &put), takes = count_active(&chan->takes, chan->ntakes, &take);
  assert(!puts || !takes || put == take);
  assert(!takes || (!chan->buf.count && !chan->returned && !chan->closed));
  assert(!puts || buffer_full(&chan->buf));
  (void)pthread_mutex_unlock(&chan->lock);
  (void)puts;
  (void)takes;
}
