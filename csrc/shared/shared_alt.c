/* shared_alt.c: see shared_alt.h. */
#include "shared/shared_alt.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/compat.h"
#include "shared/after.h"
#include "shared/shared_chan_state.h"

static const SharedValue NOTHING = {.kind = SHARED_NIL};

/* ---- waiters ---- */

static List *queue_of(SharedChan *chan, const SharedWaiter *w) {
  return w->kind == SHARED_PUT ? &chan->puts : w->kind == SHARED_TAKE ? &chan->takes : &chan->watches;
}

static void enqueue(SharedChan *chan, SharedWaiter *w) {
  list_append(queue_of(chan, w), &w->link);
  if (w->kind == SHARED_PUT) chan->nputs++;
  else if (w->kind == SHARED_TAKE) chan->ntakes++;
}

static void dequeue(SharedChan *chan, SharedWaiter *w) {
  list_remove(queue_of(chan, w), &w->link);
  if (w->kind == SHARED_PUT) chan->nputs--;
  else if (w->kind == SHARED_TAKE) chan->ntakes--;
}

/* Swaps the state of an active alt; returns false if another thread was first. */
static bool claim(SharedAlt *alt, SharedState state) {
  int active = SHARED_ACTIVE;
  return atomic_compare_exchange_strong(&alt->state, &active, state);
}

/* Removes waiters from a queue up to the first active one, which it commits and returns; or NULL. */
static SharedWaiter *claim_first(SharedChan *chan, List *queue) {
  while (queue->first) {
    SharedWaiter *w = shared_waiter_of(queue->first);
    PREFETCH_TO_WRITE(w->owner);
    dequeue(chan, w);
    if (claim(w->alt, SHARED_COMMITTED)) return w;
  }
  return NULL;
}

/* ---- results ---- */

/* Gives a claimed waiter its result, and notes its owner if that is asleep. From here on the alt belongs to its
   owner. */
static void deliver(SharedWaiter *w, bool ok, SharedValue value, After *after) {
  SharedAlt *alt = w->alt;
  Owner *owner = w->owner;
  alt->result = (SharedResult){.op = w->op, .ok = ok, .value = value};
  if (owner_push(owner, &alt->arrival)) after_note(after, owner_hold(owner));
}

/* ---- one operation, on a locked channel ---- */

static SharedValue move(SharedValue *value) {
  SharedValue moved = *value;
  value->kind = SHARED_NIL;
  return moved;
}

static void store(SharedChan *chan, SharedValue value) {
  chan->slots[buffer_tail(&chan->buf)] = value;
  chan->buf.count++;
}

static SharedValue fetch(SharedChan *chan) {
  SharedValue *oldest = &chan->slots[chan->buf.head];
  if (chan->buf.kind == BUFFER_PROMISE) return shared_value_copy(oldest);
  SharedValue value = *oldest;
  buffer_advance(&chan->buf);
  return value;
}

/* Completes all takes that wait for the promise's value. */
static void fulfil(SharedChan *chan, After *after) {
  SharedWaiter *w;
  while ((w = claim_first(chan, &chan->takes)) != NULL) {
    chan->take_total++;
    deliver(w, true, fetch(chan), after);
  }
}

/* Adds an accepted value to a channel on which no take waits, or to a promise. */
static void add(SharedChan *chan, SharedValue value, After *after) {
  switch (buffer_add(&chan->buf)) {
  case BUFFER_DROP:
    after->dropped = value;
    return;
  case BUFFER_SLIDE:
    after->dropped = fetch(chan);
    break;
  case BUFFER_ADD:
    break;
  }
  store(chan, value);
}

/* A copy of the reason of the close, for a take. */
static SharedValue reason_for(SharedChan *chan, const SharedWaiter *take) {
  if (!take->drops_reason) chan->reason_taken = chan->reason.kind != SHARED_NIL;
  return shared_value_copy(&chan->reason);
}

/* Counts a put that is accepted, and returns its number. */
static uint32_t count_put(SharedChan *chan) {
  chan->put_total++;
  return chan->buf.kind == BUFFER_PROMISE ? 0 : (uint32_t)chan->put_total;
}

static bool try_put(SharedWaiter *put, SharedResult *result, After *after) {
  SharedChan *chan = put->chan;
  *result = (SharedResult){.ok = !chan->closed};
  if (chan->closed) {
    result->value = shared_value_copy(&chan->reason);
    return true;
  }
  SharedWaiter *w = chan->buf.kind == BUFFER_PROMISE ? NULL : claim_first(chan, &chan->takes);
  if (!w && buffer_full(&chan->buf)) return false;
  put->value.number = result->value.number = count_put(chan);
  if (w) {
    chan->take_total++;
    deliver(w, true, move(&put->value), after);
  } else {
    add(chan, move(&put->value), after);
    if (chan->buf.kind == BUFFER_PROMISE) fulfil(chan, after);
  }
  return true;
}

static bool try_take(const SharedWaiter *take, SharedResult *result, After *after) {
  SharedChan *chan = take->chan;
  bool buffered = chan->buf.count > 0;
  *result = (SharedResult){.ok = true};
  if (chan->returned) {
    SharedReturn *first = chan->returned;
    chan->returned = first->next;
    result->value = first->value;
    after->emptied = first;
    chan->take_total++;
    return true;
  }
  if (buffered) result->value = fetch(chan);
  SharedWaiter *w = buffered && chan->buf.kind != BUFFER_FIXED ? NULL : claim_first(chan, &chan->puts);
  if (w) {
    w->value.number = count_put(chan);
    SharedValue nothing = {.kind = SHARED_NIL, .number = w->value.number};
    if (buffered) store(chan, move(&w->value));
    else result->value = move(&w->value);
    deliver(w, true, nothing, after);
  }
  if (buffered || w) {
    chan->take_total++;
    return true;
  }
  result->ok = false;
  if (chan->closed) result->value = reason_for(chan, take);
  return chan->closed;
}

static bool try_watch(SharedChan *chan, SharedResult *result) {
  *result = (SharedResult){.ok = false};
  return chan->closed;
}

static bool try_op(SharedWaiter *w, SharedResult *result, After *after) {
  if (w->kind == SHARED_PUT) return try_put(w, result, after);
  return w->kind == SHARED_TAKE ? try_take(w, result, after) : try_watch(w->chan, result);
}

/* ---- many ---- */

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (SharedChan *const *)a, y = (uintptr_t) * (SharedChan *const *)b;
  return (x > y) - (x < y);
}

/* Fills `order` with the channels of the operations, each once, in ascending order, and returns their number. Inserts
   few channels one by one, since qsort takes longer. */
static uint32_t sort(const SharedWaiter *ops, uint32_t n, SharedChan **order) {
  enum { FEW = 16 };
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = i;
    for (; n <= FEW && at > 0 && by_address(&order[at - 1], &ops[i].chan) > 0; at--) order[at] = order[at - 1];
    order[at] = ops[i].chan;
  }
  if (n > FEW) qsort((void *)order, n, sizeof(SharedChan *), by_address);
  uint32_t unique = 1;
  for (uint32_t i = 1; i < n; i++) {
    if (order[i] != order[unique - 1]) order[unique++] = order[i];
  }
  return unique;
}

static void unlock(SharedChan **order, uint32_t n) {
  while (n > 0) (void)pthread_mutex_unlock(&order[--n]->lock);
}

/* Whether one more operation may be enqueued. */
static bool has_room(SharedChan *chan, const SharedWaiter *w) {
  if (w->is_uncounted || w->kind == SHARED_WATCH) return true;
  return (w->kind == SHARED_PUT ? chan->nputs : chan->ntakes) < SHARED_MAX_PENDING ||
         shared_few_count(queue_of(chan, w));
}

/* Enqueues all operations; or none, and reports which one exceeds the limit. */
static bool enqueue_all(SharedWaiter *ops, uint32_t n, SharedAlt *alt, SharedResult *result) {
  for (uint32_t i = 0; i < n; i++) {
    SharedWaiter *w = &ops[i];
    if (!has_room(w->chan, w)) {
      result->op = i;
      while (i > 0) dequeue(ops[i - 1].chan, &ops[i - 1]), i--;
      return false;
    }
    w->alt = alt;
    w->owner = alt->owner;
    w->op = i;
    enqueue(w->chan, w);
  }
  return true;
}

SharedOutcome shared_do(SharedWaiter *ops, uint32_t n, SharedChan **order, SharedAlt *alt, SharedResult *result) {
  After after = {0};
  SharedChan *single = ops[0].chan;
  if (n == 1) order = &single;
  uint32_t nlocks = n == 1 ? 1 : sort(ops, n, order);
  for (uint32_t i = 0; i < nlocks; i++) shared_chan_lock(order[i]);
  SharedOutcome outcome = SHARED_NONE;
  for (uint32_t i = 0; i < n && outcome == SHARED_NONE; i++) {
    if (!try_op(&ops[i], result, &after)) continue;
    result->op = i;
    outcome = SHARED_DONE;
  }
  if (outcome == SHARED_NONE && alt) {
    alt->waiters = ops;
    alt->count = n;
    atomic_store_explicit(&alt->state, SHARED_ACTIVE, memory_order_relaxed); /* the locks publish it */
    outcome = enqueue_all(ops, n, alt, result) ? SHARED_WAITS : SHARED_TOO_MANY;
    if (outcome == SHARED_TOO_MANY) atomic_store_explicit(&alt->state, SHARED_IDLE, memory_order_relaxed);
  }
  unlock(order, nlocks);
  result->has_woken = after.nowners > 0;
  after_finish(&after);
  return outcome;
}

bool shared_can(SharedChan *chan, SharedOpKind kind) {
  shared_chan_lock(chan);
  bool can = chan->closed;
  if (kind == SHARED_PUT) can |= chan->takes.first || !buffer_full(&chan->buf);
  else can |= chan->puts.first || chan->buf.count || chan->returned;
  (void)pthread_mutex_unlock(&chan->lock);
  return can;
}

/* Removes the waiters of an alt from their queues, except the one at index `but`. */
static void leave(SharedAlt *alt, uint32_t but) {
  for (uint32_t i = 0; i < alt->count; i++) {
    SharedWaiter *w = &alt->waiters[i];
    if (i == but) continue;
    shared_chan_lock(w->chan);
    if (w->link.next) dequeue(w->chan, w);
    (void)pthread_mutex_unlock(&w->chan->lock);
  }
  alt->count = 0;
  atomic_store_explicit(&alt->state, SHARED_IDLE, memory_order_relaxed);
}

/* The thread that has completed the alt has removed that waiter from its queue. */
void shared_settle(SharedAlt *alt) {
  if (alt->count) leave(alt, alt->result.op);
}

bool shared_withdraw(SharedAlt *alt) {
  bool is_gone = claim(alt, SHARED_GONE);
  leave(alt, UINT32_MAX); /* all waiters: the completing thread pushes the alt before it unlocks the channel */
  return is_gone;
}

/* ---- closing, and giving back ---- */

/* Completes the waiting puts that give up when the channel closes. */
static void give_up_puts(SharedChan *chan, After *after) {
  Link *link = chan->puts.first;
  for (uint32_t n = chan->nputs; n > 0; n--) {
    SharedWaiter *w = shared_waiter_of(link);
    link = link->next;
    if (!w->gives_up) continue;
    dequeue(chan, w);
    if (claim(w->alt, SHARED_COMMITTED)) deliver(w, false, NOTHING, after);
  }
}

void shared_close(SharedChan *chan, SharedValue reason) {
  After after = {0};
  (void)pthread_mutex_lock(&chan->lock);
  if (!chan->closed) {
    chan->closed = true;
    chan->reason = move(&reason);
    SharedWaiter *w;
    while ((w = claim_first(chan, &chan->takes)) != NULL) deliver(w, false, reason_for(chan, w), &after);
    give_up_puts(chan, &after);
    while ((w = claim_first(chan, &chan->watches)) != NULL) deliver(w, false, NOTHING, &after);
  }
  (void)pthread_mutex_unlock(&chan->lock);
  shared_value_drop(&reason);
  after_finish(&after);
}

void shared_give_back(SharedChan *chan, SharedReturn *given) {
  After after = {0};
  (void)pthread_mutex_lock(&chan->lock);
  SharedWaiter *w = claim_first(chan, &chan->takes);
  if (w) {
    deliver(w, true, move(&given->value), &after);
    after.emptied = given;
  } else {
    chan->take_total--;
    given->next = chan->returned;
    chan->returned = given;
  }
  (void)pthread_mutex_unlock(&chan->lock);
  after_finish(&after);
}
