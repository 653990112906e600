/* shared: threads that put, take, watch, wait for many, withdraw, give back and close on shared channels,
   all at random. Each value is put by one thread once; in the end every value that was accepted has been taken once or
   is in a buffer, and no thread is left waiting although it could go on.

   shared ROUNDS [SEED]

   A thread that waits longer than PATIENCE_S is a failure: so a lost wakeup shows. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../patience.h"
#include "shared/shared_alt.h"
#include "shared/spin.h"

enum {
  THREADS = 4,     /* threads in a round */
  CHANS = 3,       /* channels they share */
  OPS = 4,         /* operations of the largest alt */
  STEPS = 20000,   /* most alts a thread does in a round */
  AFTER = 50,      /* of them, once the channels are closed */
  PATIENCE_S = 20, /* longest wait, on an idle machine (patience.h) */
};

typedef struct World {
  SharedChan *chans[CHANS];
  atomic_uchar *accepted; /* by value: how often it was accepted */
  atomic_uchar *taken;    /* how often it was taken */
  atomic_bool closed;     /* all channels are closed, or about to be */
  atomic_bool over;       /* all threads have ended */
  long ms;                /* when the channels close */
} World;

/* What a scheduler has in its place: a thread that sleeps on a condition. */
typedef struct Sleeper {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool rung;
} Sleeper;

typedef struct Thread {
  pthread_t id;
  World *world;
  uint64_t random;
  int64_t next; /* the next value it puts */
  Owner *owner;
  Sleeper sleeper;
  SharedAlt alt;
  uint64_t done;    /* alts that brought a result */
  uint64_t gave_up; /* alts that were withdrawn */
} Thread;

static uint32_t pick(Thread *t, uint32_t n) {
  t->random ^= t->random << 13;
  t->random ^= t->random >> 7;
  t->random ^= t->random << 17;
  return (uint32_t)((t->random >> 16) % n);
}

static void wake(void *data) {
  Sleeper *s = (Sleeper *)data;
  pthread_mutex_lock(&s->lock);
  s->rung = true;
  pthread_cond_signal(&s->cond);
  pthread_mutex_unlock(&s->lock);
}

static void fail(const char *what) {
  fprintf(stderr, "shared: %s\n", what);
  abort();
}

/* Sleeps until the owner has something in its inbox, or `ns` have passed. */
static bool sleep_on_inbox(Thread *t, long long ns) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)((until.tv_nsec + ns) / 1000000000);
  until.tv_nsec = (long)((until.tv_nsec + ns) % 1000000000);
  bool in_time = true, is_last = ns < PATIENCE_S * 1000000000LL; /* else it waits once more if the machine is busy */
  while (in_time && owner_is_empty(t->owner)) {
    if (!owner_sleep(t->owner)) break;
    pthread_mutex_lock(&t->sleeper.lock);
    while (in_time && !t->sleeper.rung) {
      in_time = pthread_cond_timedwait(&t->sleeper.cond, &t->sleeper.lock, &until) != ETIMEDOUT;
      if (in_time || is_last) continue;
      in_time = is_last = true;
      until.tv_sec += (time_t)PATIENCE_S * (patience_factor(patience_processors()) - 1);
    }
    t->sleeper.rung = false;
    pthread_mutex_unlock(&t->sleeper.lock);
    owner_awake(t->owner);
  }
  if (!in_time && ns >= PATIENCE_S * 1000000000LL) fail("a wakeup was lost");
  return !owner_is_empty(t->owner);
}

/* Waits for the alt: until it comes, which without a wakeup it never would, or for a short time. False when it was
   given up. */
static bool wait_for(Thread *t) {
  bool is_late = false; /* it could not be withdrawn, which has settled it */
  if (pick(t, 8) == 0) {
    if (!sleep_on_inbox(t, PATIENCE_S * 1000000000LL)) fail("nothing came");
  } else if (!pick(t, 64) || !sleep_on_inbox(t, pick(t, 50000))) {
    if (pick(t, 2)) {
      if (shared_withdraw(&t->alt)) return false;
      is_late = true;
    }
    if (!is_late && !sleep_on_inbox(t, 200000)) {
      if (shared_withdraw(&t->alt)) return false;
      is_late = true;
    }
    if (!sleep_on_inbox(t, PATIENCE_S * 1000000000LL)) fail("a wakeup was lost");
  }
  const Arrival *arrival = owner_pop_all(t->owner);
  SharedAlt *alt = &t->alt;
  if (arrival != &alt->arrival || arrival->next) fail("the inbox has what nobody waited for");
  if (atomic_load(&alt->state) != (is_late ? SHARED_IDLE : SHARED_COMMITTED))
    fail("an alt in the inbox is not committed");
  shared_settle(alt);
  return true;
}

static void count(atomic_uchar *counts, int64_t value) {
  if (atomic_fetch_add(&counts[value], 1) != 0) fail("a value was accepted or taken twice");
}

/* Books the result of one of the operations. */
static void book(Thread *t, SharedWaiter *ops, SharedResult *result, const int64_t *values) {
  World *w = t->world;
  t->done++;
  if (ops[result->op].kind == SHARED_PUT) {
    if (result->ok) count(w->accepted, values[result->op]);
    else if (!atomic_load(&w->closed)) fail("a channel that is open accepted nothing");
  } else if (result->ok && pick(t, 16) == 0) {
    SharedReturn *given = (SharedReturn *)malloc(sizeof *given);
    given->value = result->value;
    shared_give_back(ops[result->op].chan, given);
    return;
  } else if (result->ok) {
    if (ops[result->op].kind == SHARED_WATCH) fail("a watch brought a value");
    if (result->value.kind == SHARED_INTEGER) count(w->taken, result->value.as.integer);
    else if (result->value.kind == SHARED_LONG) count(w->taken, *(int64_t *)(void *)result->value.as.parcel->bytes);
    else fail("a take brought a value that nobody put");
  } else if (!atomic_load(&w->closed)) {
    fail("a channel that is open gave nothing");
  }
  shared_value_drop(&result->value);
}

static SharedValue make_value(Thread *t, int64_t n) {
  if (pick(t, 2)) return (SharedValue){.kind = SHARED_INTEGER, .as.integer = n};
  SharedValue value = {.kind = SHARED_LONG};
  value.as.parcel = parcel_new((const char *)&n, sizeof n, NULL, 0, NULL);
  return value;
}

/* One alt of up to OPS operations: done at once, waited for, or given up while it waits. */
static void one(Thread *t) {
  SharedWaiter ops[OPS];
  SharedChan *order[OPS];
  int64_t values[OPS];
  SharedResult result;
  uint32_t n = pick(t, 3) ? 1 : 1 + pick(t, OPS);
  for (uint32_t i = 0; i < n; i++) {
    ops[i] = (SharedWaiter){.chan = t->world->chans[pick(t, CHANS)], .kind = pick(t, 2) ? SHARED_PUT : SHARED_TAKE};
    if (pick(t, 16) == 0) ops[i].kind = SHARED_WATCH;
    ops[i].gives_up = pick(t, 4) == 0;
    if (ops[i].kind == SHARED_PUT) values[i] = t->next++, ops[i].value = make_value(t, values[i]);
  }
  bool waits = pick(t, 8);
  SharedOutcome outcome = shared_do(ops, n, order, waits ? &t->alt : NULL, &result);
  if (outcome == SHARED_DONE) {
    book(t, ops, &result, values);
  } else if (outcome == SHARED_WAITS) {
    if (wait_for(t)) book(t, ops, &t->alt.result, values);
    else t->gave_up++;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (ops[i].link.next) fail("an operation that is over is still in a queue");
    shared_value_drop(&ops[i].value);
  }
}

static void *run(void *data) {
  Thread *t = (Thread *)data;
  for (int i = 0, after = 0; i < STEPS && after < AFTER; i++) {
    if (atomic_load(&t->world->closed)) after++;
    one(t);
    if (pick(t, 16) == 0) shared_chan_check(t->world->chans[pick(t, CHANS)]);
  }
  return NULL;
}

/* All have a turn, and then all channels close: whoever waits goes on. */
static void *close_all(void *data) {
  World *w = (World *)data;
  struct timespec pause = {.tv_nsec = w->ms * 1000000};
  nanosleep(&pause, NULL);
  atomic_store(&w->closed, true);
  for (int i = 0; i < CHANS; i++) {
    shared_close(w->chans[i], (SharedValue){.kind = SHARED_NIL});
  }
  /* Puts wait on although their channel is closed; nobody else may be left to take them. */
  for (;;) {
    bool quiet = true;
    for (int i = 0; i < CHANS; i++) {
      SharedWaiter op = {.chan = w->chans[i]};
      SharedResult result;
      if (shared_do(&op, 1, NULL, NULL, &result) == SHARED_DONE && result.ok) {
        int64_t value = result.value.kind == SHARED_INTEGER ? result.value.as.integer
                                                            : *(int64_t *)(void *)result.value.as.parcel->bytes;
        count(w->taken, value);
        quiet = false;
      }
      shared_value_drop(&result.value);
    }
    if (quiet && atomic_load(&w->over)) return NULL;
  }
}

static void check_counts(World *w, int64_t nvalues) {
  for (int64_t i = 0; i < nvalues; i++) {
    if (atomic_load(&w->accepted[i]) != atomic_load(&w->taken[i])) {
      fprintf(stderr, "value %lld: accepted %d, taken %d\n", (long long)i, w->accepted[i], w->taken[i]);
      fail("a value was lost, or came from nowhere");
    }
  }
}

/* ---- how long a thread looks before it sleeps (spin.h) ---- */

/* Nothing ever comes, whatever this thread has done before it sleeps: the time is bounded, each time and in all. */
static void spin_in_vain(uint32_t wakes_of_8) {
  enum { SLEEPS = 100000 };
  Thread t = {.random = 1 + wakes_of_8};
  Spin spin = {0};
  int64_t sum = 0;
  for (int64_t i = 1; i <= SLEEPS; i++) {
    SpinTime time = spin_begin(&spin, pick(&t, 8) < wakes_of_8);
    if (time.ns > (time.lets_others_run ? SPIN_LONG : SPIN_USUAL)) fail("a thread looks for too long");
    if (time.ns) spin_end(&spin, false);
    sum += time.ns;
    if (sum > SPIN_LONG + i * SPIN_USUAL) fail("a thread looks for more than 5 us a sleep");
  }
  if (sum > SLEEPS * (int64_t)SPIN_USUAL / 4) fail("a thread that looks in vain does not look more seldom");
}

/* Two threads answer each other at once when they are awake, but need WAKING ns to wake. However they begin, they end up
   awake. `seldom`: how long they have looked in vain before. */
static void spin_together(int seldom) {
  enum { WAKING = 20000, ANSWERING = 500 };
  Spin spin[2] = {{0}};
  for (int i = 0; i < seldom; i++) {
    for (int k = 0; k < 2; k++) {
      if (spin_begin(&spin[k], i % 2).ns) spin_end(&spin[k], false);
    }
  }
  bool is_asleep[2] = {true, true};
  int sleeps = 0;
  for (int i = 0; i < 10000; i++) { /* the longest pause is 1024 sleeps */
    int me = i % 2, other = 1 - me;
    bool has_woken = is_asleep[other];
    is_asleep[other] = false;
    SpinTime time = spin_begin(&spin[me], has_woken);
    bool has_come = time.ns >= (has_woken ? WAKING : ANSWERING);
    if (time.ns) spin_end(&spin[me], has_come);
    is_asleep[me] = !has_come;
    if (i >= 6000 && !has_come) sleeps++;
  }
  if (sleeps) fail("two threads that pass values to and fro go on to sleep");
}

static void check_spin(void) {
  for (uint32_t wakes = 0; wakes <= 8; wakes++) spin_in_vain(wakes);
  for (int seldom = 0; seldom < 3000; seldom += 37) spin_together(seldom);
}

static void play(uint64_t seed, uint64_t *done, uint64_t *gave_up) {
  enum { VALUES = THREADS * STEPS * OPS };
  World w = {.accepted = calloc(VALUES, sizeof *w.accepted),
             .taken = calloc(VALUES, sizeof *w.taken),
             .ms = (long)(seed * 7 % 60)};
  for (uint32_t i = 0; i < CHANS; i++) {
    uint32_t limit = (uint32_t)((seed >> (2 * i)) % 4);
    w.chans[i] = shared_chan_new(limit ? BUFFER_FIXED : BUFFER_NONE, limit, NULL);
  }
  Thread threads[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    threads[i] = (Thread){.world = &w, .random = seed * THREADS + i + 1, .next = (int64_t)i * STEPS * OPS};
    pthread_mutex_init(&threads[i].sleeper.lock, NULL);
    pthread_cond_init(&threads[i].sleeper.cond, NULL);
    threads[i].owner = owner_new(wake, NULL, &threads[i].sleeper);
    threads[i].alt.owner = threads[i].owner;
    pthread_create(&threads[i].id, NULL, run, &threads[i]);
  }
  pthread_t closer;
  pthread_create(&closer, NULL, close_all, &w);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i].id, NULL);
    *done += threads[i].done;
    *gave_up += threads[i].gave_up;
  }
  atomic_store(&w.over, true);
  pthread_join(closer, NULL);
  check_counts(&w, VALUES);
  for (int i = 0; i < THREADS; i++) owner_release(threads[i].owner);
  for (int i = 0; i < CHANS; i++) {
    assert(shared_chan_holds(w.chans[i]) == 1);
    shared_chan_release(w.chans[i]);
  }
  free(w.accepted);
  free(w.taken);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 20;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, done = 0, gave_up = 0;
  check_spin();
  for (int i = 0; i < rounds; i++) play(seed + (uint64_t)i, &done, &gave_up);
  printf("shared: %d rounds from seed %llu, %llu operations, %llu given up\n", rounds, (unsigned long long)seed,
         (unsigned long long)done, (unsigned long long)gave_up);
  return 0;
}
