/* blocking.c: see blocking.h. */
#include "shared/blocking.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cond.h"

/* A thread that sleeps: what its owner (owner.h) wakes. */
typedef struct Sleeper {
  pthread_mutex_t lock;
  pthread_cond_t waking;
  bool is_woken; /* under the lock */
} Sleeper;

/* Owner.wake */
static void wake(void *data) {
  Sleeper *s = (Sleeper *)data;
  (void)pthread_mutex_lock(&s->lock);
  s->is_woken = true;
  (void)pthread_cond_signal(&s->waking);
  (void)pthread_mutex_unlock(&s->lock);
}

/* Owner.drop */
static void drop(void *data) {
  Sleeper *s = (Sleeper *)data;
  (void)pthread_cond_destroy(&s->waking);
  (void)pthread_mutex_destroy(&s->lock);
  free(s);
}

static Owner *new_owner(void) {
  Sleeper *s = (Sleeper *)malloc(sizeof *s);
  if (!s) return NULL;
  s->is_woken = false;
  (void)pthread_mutex_init(&s->lock, NULL);
  cond_init(&s->waking);
  Owner *owner = owner_new(wake, drop, s);
  if (!owner) drop(s);
  return owner;
}

/* Sleeps until it is woken; returns false if `until` comes first (NULL: never). */
static bool sleep_until(Sleeper *s, const struct timespec *until) {
  int error = 0;
  (void)pthread_mutex_lock(&s->lock);
  while (!s->is_woken && error != ETIMEDOUT) {
    error = until ? pthread_cond_timedwait(&s->waking, &s->lock, until) : pthread_cond_wait(&s->waking, &s->lock);
  }
  bool is_woken = s->is_woken;
  s->is_woken = false;
  (void)pthread_mutex_unlock(&s->lock);
  return is_woken;
}

/* Sets *until to the time in `ns`, and returns it; or returns NULL if that is negative. */
static const struct timespec *set_limit(struct timespec *until, int64_t ns) {
  if (ns < 0) return NULL;
  *until = cond_after(ns);
  return until;
}

/* Waits for an enqueued alt. Returns how that ended; with BLOCKING_DONE there is a result. */
static BlockingEnd wait_for(SharedAlt *alt, const SharedChan *chan, const struct timespec *until,
                            SharedResult *result) {
  Owner *owner = alt->owner;
  BlockingEnd end = BLOCKING_DONE;
  while (end == BLOCKING_DONE && owner_sleep(owner)) {
    if (shared_chan_holds(chan) == 1) end = BLOCKING_ALONE;
    else if (!sleep_until((Sleeper *)owner->data, until)) end = BLOCKING_TIME;
  }
  owner_awake(owner);
  if (shared_withdraw(alt)) return end; /* else another thread has completed it and left the channel */
  (void)owner_pop_all(owner);
  *result = alt->result;
  return BLOCKING_DONE;
}

/* Does the operation, and moves the value of its result to *value. */
static BlockingEnd do_blocking(SharedWaiter op, int64_t ns, SharedValue *value) {
  SharedChan *chan = op.chan;
  SharedAlt alt = {.owner = NULL};
  SharedResult result = {.ok = false};
  struct timespec until;
  BlockingEnd end = BLOCKING_DONE;
  SharedOutcome outcome = shared_do(&op, 1, NULL, NULL, &result);
  if (outcome == SHARED_NONE && ns == 0) {
    end = BLOCKING_TIME;
  } else if (outcome == SHARED_NONE) {
    const struct timespec *limit = set_limit(&until, ns);
    alt.owner = new_owner();
    if (!alt.owner) end = BLOCKING_NO_MEMORY;
    else if (shared_do(&op, 1, NULL, &alt, &result) == SHARED_WAITS) end = wait_for(&alt, chan, limit, &result);
    if (alt.owner) owner_release(alt.owner);
  }
  if (end == BLOCKING_DONE && !result.ok) end = BLOCKING_CLOSED;
  shared_value_drop(&op.value);
  *value = result.value;
  return end;
}

BlockingEnd blocking_put(SharedChan *chan, SharedValue value, int64_t ns) {
  const SharedWaiter op = {.chan = chan, .value = value, .kind = SHARED_PUT, .gives_up = true, .is_uncounted = true};
  SharedValue none;
  BlockingEnd end = do_blocking(op, ns, &none);
  shared_value_drop(&none);
  return end;
}

BlockingEnd blocking_take(SharedChan *chan, SharedValue *value, int64_t ns) {
  return do_blocking((SharedWaiter){.chan = chan, .kind = SHARED_TAKE, .is_uncounted = true}, ns, value);
}
