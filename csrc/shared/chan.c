/* chan.c: see chan.h. */
#include "shared/chan.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/clock.h"
#include "base/compat.h"

/* What each operation uses comes first, in as few cache lines as possible: these move from one processor to another. */
struct SharedChan {
  pthread_mutex_t lock;   /* guards all below but `holds`, `memory` and `id`. Never held while Lua runs or memory is
                             allocated */
  List puts;              /* SharedWaiter.link of puts that wait, first come first served */
  List takes;             /* of takes */
  uint32_t nputs;         /* how many */
  uint32_t ntakes;        /* how many */
  uint64_t put_total;     /* values accepted */
  uint64_t take_total;    /* values given */
  SharedReturn *returned; /* values that were given back; the next take gets the first */
  SharedValue *slots;     /* the buffer's values; NULL without a buffer */
  Owner *left_asleep;     /* whose take a quiet put has completed, with a hold; or NULL */
  Buffer buf;             /* the buffer's state; all its slots are there from the start */
  bool closed;            /* no more puts */
  bool reason_taken;      /* a take has got the reason */
  SharedValue reason;     /* with which it was closed */
  List watches;           /* of watches */
  atomic_uint holds;      /* of all who may use the channel */
  atomic_uint memory;     /* the same, and of threads that are about to drop theirs; the last frees the channel */
  uint64_t id;            /* constant */
  char name[SHARED_NAME_MAX + 1];
};

static const SharedValue NOTHING = {.kind = SHARED_NIL};

/* ---- life ---- */

SharedChan *shared_chan_new(BufferKind kind, uint32_t limit) {
  SharedChan *chan = (SharedChan *)cache_new(sizeof *chan);
  if (!chan) return NULL;
  if (limit) {
    /* All slots at once, since there is no allocating under the lock. Pages of a large one that are never used cost
       nothing. */
    chan->slots = (SharedValue *)calloc(limit, sizeof(SharedValue));
    if (!chan->slots) {
      cache_free(chan);
      return NULL;
    }
  }
  atomic_init(&chan->holds, 1);
  atomic_init(&chan->memory, 1);
  (void)pthread_mutex_init(&chan->lock, NULL);
  chan->buf = (Buffer){.limit = limit, .size = limit, .kind = (uint8_t)kind};
  /* The next channel at this address is made later. */
  chan->id = (uint64_t)(uintptr_t)chan << 16 ^ (uint64_t)clock_now(&(Clock){0});
  return chan;
}

SharedChan *shared_chan_hold(SharedChan *chan) {
  atomic_fetch_add_explicit(&chan->memory, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&chan->holds, 1, memory_order_relaxed);
  return chan;
}

static void wake_last(SharedChan *chan);

void shared_chan_release(SharedChan *chan) {
  if (atomic_fetch_sub(&chan->holds, 1) == 2) wake_last(chan);
  if (atomic_fetch_sub_explicit(&chan->memory, 1, memory_order_acq_rel) > 1) return;
  while (chan->returned) {
    SharedReturn *first = chan->returned;
    chan->returned = first->next;
    shared_value_drop(&first->value);
    free(first);
  }
  while (chan->buf.count) {
    shared_value_drop(&chan->slots[chan->buf.head]);
    buffer_advance(&chan->buf);
  }
  shared_value_drop(&chan->reason);
  if (chan->left_asleep) owner_release(chan->left_asleep);
  (void)pthread_mutex_destroy(&chan->lock);
  free(chan->slots);
  cache_free(chan);
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

/* ---- the lock ---- */

/* Locks the channel. Others hold the lock for less than a microsecond, as long as the system lets them run: trying for
   so long is cheaper than to sleep. */
static void lock(SharedChan *chan) {
  enum { TRIES = 32 };
  PREFETCH_TO_WRITE(&chan->put_total); /* the next cache line */
  for (int i = 0; i < TRIES; i++) {
    if (pthread_mutex_trylock(&chan->lock) == 0) return;
    PAUSE_BRIEFLY(); /* seldom covered: another thread has the lock just then */
  }
  (void)pthread_mutex_lock(&chan->lock); /* seldom covered: see above */
}

/* ---- waiters ---- */

static SharedWaiter *waiter_of(Link *link) { return CONTAINER_OF(link, SharedWaiter, link); }

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

/* Swaps the state of an active alt; false when somebody else was first. */
static bool claim(SharedAlt *alt, SharedState state) {
  int active = SHARED_ACTIVE;
  return atomic_compare_exchange_strong(&alt->state, &active, state);
}

/* Takes the first waiter that is still active out of a queue, committed; or NULL. */
static SharedWaiter *claim_first(SharedChan *chan, List *queue) {
  while (queue->first) {
    SharedWaiter *w = waiter_of(queue->first);
    PREFETCH_TO_WRITE(w->owner);
    dequeue(chan, w);
    if (claim(w->alt, SHARED_COMMITTED)) return w;
  }
  return NULL;
}

/* Owners to wake, and what to drop and free, once the locks are released. */
enum { WAKES = 8 };
typedef struct After {
  Owner *owners[WAKES];  /* each with a hold */
  uint32_t nowners;      /* how many */
  SharedValue dropped;   /* what a buffer gave up */
  SharedReturn *emptied; /* to be freed */
} After;

/* Notes an owner, with a hold on it, to be woken after the locks are released. */
static void note(After *after, Owner *owner) {
  if (after->nowners < WAKES) {
    after->owners[after->nowners++] = owner;
  } else {
    owner_wake(owner); /* rare, and correct under a lock, too */
    owner_release(owner);
  }
}

/* Notes the owner that quiet puts have left asleep. */
static void note_left_asleep(SharedChan *chan, After *after) {
  if (LIKELY(!chan->left_asleep)) return;
  note(after, chan->left_asleep);
  chan->left_asleep = NULL;
}

static void finish(After *after) {
  for (uint32_t i = 0; i < after->nowners; i++) {
    owner_wake(after->owners[i]);
    owner_release(after->owners[i]);
  }
  shared_value_drop(&after->dropped);
  free(after->emptied);
}

/* Gives a claimed waiter its result. Its alt must not be touched afterwards. Returns the alt's owner, with a hold, if
   that is asleep and must be woken; else NULL. */
static Owner *hand_over(SharedWaiter *w, bool ok, SharedValue value) {
  SharedAlt *alt = w->alt;
  Owner *owner = w->owner;
  alt->result = (SharedResult){.op = w->op, .ok = ok, .value = value};
  return owner_push(owner, &alt->arrival) ? owner_hold(owner) : NULL;
}

/* Gives a claimed waiter its result, and notes its owner. */
static void deliver(SharedWaiter *w, bool ok, SharedValue value, After *after) {
  Owner *asleep = hand_over(w, ok, value);
  if (asleep) note(after, asleep);
}

/* Gives a claimed take the value of a quiet put. Its owner may stay asleep. */
static void deliver_quietly(SharedChan *chan, SharedWaiter *take, SharedValue value, After *after) {
  Owner *asleep = hand_over(take, true, value);
  if (!asleep) return;
  note_left_asleep(chan, after); /* another one, or the same */
  chan->left_asleep = asleep;
}

void shared_chan_wake(SharedChan *chan) {
  After after = {0};
  (void)pthread_mutex_lock(&chan->lock);
  note_left_asleep(chan, &after);
  (void)pthread_mutex_unlock(&chan->lock);
  finish(&after);
}

/* Wakes an owner that waits on the channel. If there is one hold left, there is one owner at most. */
static void wake_last(SharedChan *chan) {
  After after = {0};
  List *const queues[] = {&chan->takes, &chan->puts, &chan->watches};
  (void)pthread_mutex_lock(&chan->lock);
  for (int i = 0; i < 3 && !after.nowners; i++) {
    if (queues[i]->first) note(&after, owner_hold(waiter_of(queues[i]->first)->alt->owner));
  }
  (void)pthread_mutex_unlock(&chan->lock);
  finish(&after);
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

/* Gives the promise's value to all that wait for it. */
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
static SharedValue tell_reason(SharedChan *chan) {
  chan->reason_taken = chan->reason.kind != SHARED_NIL;
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
    if (put->is_quiet) deliver_quietly(chan, w, move(&put->value), after);
    else deliver(w, true, move(&put->value), after);
  } else {
    add(chan, move(&put->value), after);
    if (chan->buf.kind == BUFFER_PROMISE) fulfil(chan, after);
  }
  if (put->is_quiet) result->left_asleep = chan->left_asleep != NULL;
  else note_left_asleep(chan, after);
  return true;
}

static bool try_take(SharedChan *chan, SharedResult *result, After *after) {
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
  if (chan->closed) result->value = tell_reason(chan);
  return chan->closed;
}

static bool try_watch(SharedChan *chan, SharedResult *result) {
  *result = (SharedResult){.ok = false};
  return chan->closed;
}

static bool try_op(SharedWaiter *w, SharedResult *result, After *after) {
  if (w->kind == SHARED_PUT) return try_put(w, result, after);
  return w->kind == SHARED_TAKE ? try_take(w->chan, result, after) : try_watch(w->chan, result);
}

/* ---- many ---- */

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (SharedChan *const *)a, y = (uintptr_t) * (SharedChan *const *)b;
  return (x > y) - (x < y);
}

/* Fills `order` with the channels of the operations, each once, in ascending order. Returns how many. Few channels are
   inserted one by one: qsort takes longer. */
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

/* Whether fewer than SHARED_MAX_PENDING of the waiters in a queue count. */
static bool few_count(const List *queue) {
  uint32_t n = 0;
  Link *link = queue->first;
  do {
    if (!waiter_of(link)->is_free && ++n == SHARED_MAX_PENDING) return false;
    link = link->next;
  } while (link != queue->first);
  return true;
}

/* Whether one more operation may be enqueued. */
static bool has_room(SharedChan *chan, const SharedWaiter *w) {
  if (w->is_free || w->kind == SHARED_WATCH) return true;
  return (w->kind == SHARED_PUT ? chan->nputs : chan->ntakes) < SHARED_MAX_PENDING || few_count(queue_of(chan, w));
}

/* Enqueues all; or none, and says which was one too many. */
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
  for (uint32_t i = 0; i < nlocks; i++) lock(order[i]);
  SharedOutcome outcome = SHARED_NONE;
  for (uint32_t i = 0; i < n && outcome == SHARED_NONE; i++) {
    uint32_t op = alt && alt->tries ? alt->tries[i] : i;
    if (!try_op(&ops[op], result, &after)) continue;
    result->op = op;
    outcome = SHARED_DONE;
  }
  if (outcome == SHARED_NONE && alt) {
    alt->waiters = ops;
    alt->count = n;
    alt->tries = NULL;
    atomic_store_explicit(&alt->state, SHARED_ACTIVE, memory_order_relaxed); /* the locks publish it */
    outcome = enqueue_all(ops, n, alt, result) ? SHARED_WAITS : SHARED_TOO_MANY;
    if (outcome == SHARED_TOO_MANY) atomic_store_explicit(&alt->state, SHARED_IDLE, memory_order_relaxed);
  }
  unlock(order, nlocks);
  result->has_woken = after.nowners > 0;
  finish(&after);
  return outcome;
}

/* Takes the waiters of an alt out of their queues, but for the one at index `but`. */
static void leave(SharedAlt *alt, uint32_t but) {
  for (uint32_t i = 0; i < alt->count; i++) {
    SharedWaiter *w = &alt->waiters[i];
    if (i == but) continue;
    lock(w->chan);
    if (w->link.next) dequeue(w->chan, w);
    (void)pthread_mutex_unlock(&w->chan->lock);
  }
  alt->count = 0;
  atomic_store_explicit(&alt->state, SHARED_IDLE, memory_order_relaxed);
}

/* Who completed it has taken that waiter out of its queue. */
void shared_settle(SharedAlt *alt) {
  if (alt->count) leave(alt, alt->result.op);
}

bool shared_withdraw(SharedAlt *alt) {
  bool is_gone = claim(alt, SHARED_GONE);
  leave(alt, UINT32_MAX); /* all: the thread that has completed it pushes it before it unlocks the channel */
  return is_gone;
}

void shared_chan_pass(SharedChan *chan) {
  lock(chan);
  (void)pthread_mutex_unlock(&chan->lock);
}

/* Completes the waiting puts that give up when the channel closes. */
static void give_up_puts(SharedChan *chan, After *after) {
  Link *link = chan->puts.first;
  for (uint32_t n = chan->nputs; n > 0; n--) {
    SharedWaiter *w = waiter_of(link);
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
    while ((w = claim_first(chan, &chan->takes)) != NULL) deliver(w, false, tell_reason(chan), &after);
    give_up_puts(chan, &after);
    while ((w = claim_first(chan, &chan->watches)) != NULL) deliver(w, false, NOTHING, &after);
    note_left_asleep(chan, &after);
  }
  (void)pthread_mutex_unlock(&chan->lock);
  shared_value_drop(&reason);
  finish(&after);
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
  finish(&after);
}

/* ---- looking ---- */

/* How many of the waiters in a queue are those of an owner. */
static uint32_t count_of(const List *queue, const Owner *owner) {
  uint32_t n = 0;
  Link *link = queue->first;
  if (!link) return 0;
  do {
    const SharedAlt *alt = waiter_of(link)->alt;
    if (alt->owner == owner && atomic_load(&alt->state) == SHARED_ACTIVE) n++;
    link = link->next;
  } while (link != queue->first);
  return n;
}

SharedCounts shared_chan_waiting(SharedChan *chan, const Owner *owner) {
  (void)pthread_mutex_lock(&chan->lock);
  SharedCounts counts = {.takes = count_of(&chan->takes, owner), .puts = count_of(&chan->puts, owner)};
  (void)pthread_mutex_unlock(&chan->lock);
  return counts;
}

SharedStats shared_chan_stats(SharedChan *chan) {
  (void)pthread_mutex_lock(&chan->lock);
  uint32_t count = chan->buf.count;
  for (const SharedReturn *given = chan->returned; given; given = given->next) count++;
  SharedStats stats = {.kind = (BufferKind)chan->buf.kind,
                       .limit = chan->buf.limit,
                       .count = count,
                       .ntakes = chan->ntakes,
                       .nputs = chan->nputs,
                       .puts = chan->put_total,
                       .takes = chan->take_total,
                       .closed = chan->closed,
                       .reason_taken = chan->reason_taken,
                       .puts_full = chan->nputs >= SHARED_MAX_PENDING && !few_count(&chan->puts),
                       .takes_full = chan->ntakes >= SHARED_MAX_PENDING && !few_count(&chan->takes)};
  (void)pthread_mutex_unlock(&chan->lock);
  return stats;
}

/* Waiters in a queue that are active; checks that there are `count` of them in all. */
static uint32_t count_active(const List *queue, uint32_t count, const SharedAlt **alt) {
  uint32_t active = 0;
  Link *link = queue->first;
  for (uint32_t i = 0; i < count; i++, link = link->next) {
    assert(link && waiter_of(link)->link.next);
    if (atomic_load(&waiter_of(link)->alt->state) != SHARED_ACTIVE) continue;
    *alt = waiter_of(link)->alt;
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
