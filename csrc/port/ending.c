/* ending.c: see ending.h.

   A signal handler can take no lock. So the children are in arrays that are never freed, in whose places a handler reads
   single numbers. While there are none, all signals have their default actions. */
#include "port/ending.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PLACES = 64 };

typedef struct Children {
  EndingChild places[PLACES];
  struct Children *_Atomic next;
} Children;

/* As the handler of a signal, the children belong to the process and not to a state: with port/sigterm.c and
   port/former.c the only data of the core that does. */
static struct {
  pthread_mutex_t lock; /* for adding and removing */
  atomic_int number;    /* of children, and of threads that hold the end */
  atomic_int holding;   /* threads that hold the end */
  _Atomic pid_t of;     /* the process that has them, and not one that it has forked */
  bool is_told_of_exit; /* exit() will call end_children */
  Children first;
} ending = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What ends programs from outside. */
static const int signals[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGPIPE, SIGXFSZ};
enum { SIGNALS = sizeof signals / sizeof *signals };

/* For how many ms the end waits for threads that start a process. */
enum { PATIENCE_MS = 2000 };

static void end_children(void) {
  if (atomic_load(&ending.number) == 0 || atomic_load(&ending.of) != getpid()) return;
  const struct timespec ms = {.tv_nsec = 1000000};
  for (int i = 0; i < PATIENCE_MS && atomic_load(&ending.holding) > 0; i++) (void)nanosleep(&ms, NULL);
  for (Children *c = &ending.first; c; c = atomic_load(&c->next)) {
    for (int i = 0; i < PLACES; i++) {
      int target = atomic_load(&c->places[i].target);
      if (target != 0) (void)kill(target, atomic_load(&c->places[i].signal));
    }
  }
}

void ending_by(int number) {
  end_children();
  struct sigaction action = {.sa_handler = SIG_DFL};
  (void)sigaction(number, &action, NULL);
  sigset_t set;
  (void)sigemptyset(&set);
  (void)sigaddset(&set, number);
  (void)raise(number);
  /* uncovered: tests/counts.c has written the counts in raise */
  (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* its handler may be running, which blocks it */
  /* Process 1 of a container is not ended by the default action of a signal. */
  if (getpid() == 1) _exit(128 + number);
}

bool ending_is_default(const struct sigaction *action) {
  return action->sa_handler == SIG_DFL || action->sa_handler == ending_by;
}

void ending_restore(int number) {
  struct sigaction action = {.sa_handler = atomic_load(&ending.number) > 0 ? ending_by : SIG_DFL};
  (void)sigemptyset(&action.sa_mask);
  (void)sigaction(number, &action, NULL);
}

void ending_renew(void) {
  for (int i = 0; i < SIGNALS; i++) {
    struct sigaction now;
    if (sigaction(signals[i], NULL, &now) == 0 && ending_is_default(&now)) ending_restore(signals[i]);
  }
}

/* A free place, or NULL if there is no memory. */
static EndingChild *find_place(void) {
  for (Children *c = &ending.first;; c = atomic_load(&c->next)) {
    for (int i = 0; i < PLACES; i++) {
      if (atomic_load(&c->places[i].target) == 0) return &c->places[i];
    }
    if (atomic_load(&c->next)) continue;
    Children *next = (Children *)calloc(1, sizeof *next);
    if (!next) return NULL;
    atomic_store(&c->next, next);
  }
}

/* Forgets the children of a process that has forked this one, and sees to it that exit() ends those of this one. False
   if there is no memory. Call it with the lock held. */
static bool begin(void) {
  if (atomic_load(&ending.of) != getpid()) {
    for (Children *c = &ending.first; c; c = atomic_load(&c->next)) {
      for (int i = 0; i < PLACES; i++) atomic_store(&c->places[i].target, 0);
    }
    atomic_store(&ending.number, 0);
    atomic_store(&ending.holding, 0);
    atomic_store(&ending.of, getpid());
  }
  if (!ending.is_told_of_exit) ending.is_told_of_exit = atexit(end_children) == 0;
  return ending.is_told_of_exit;
}

static void add_one(void) {
  if (atomic_fetch_add(&ending.number, 1) == 0) ending_renew();
}

static void remove_one(void) {
  if (atomic_fetch_sub(&ending.number, 1) == 1) ending_renew();
}

void ending_hold(sigset_t *before) {
  sigset_t held;
  (void)sigemptyset(&held);
  for (int i = 0; i < SIGNALS; i++) (void)sigaddset(&held, signals[i]);
  (void)pthread_sigmask(SIG_BLOCK, &held, before);
  (void)pthread_mutex_lock(&ending.lock);
  (void)begin();
  atomic_fetch_add(&ending.holding, 1);
  add_one();
  (void)pthread_mutex_unlock(&ending.lock);
}

void ending_release(const sigset_t *before) {
  (void)pthread_mutex_lock(&ending.lock);
  atomic_fetch_sub(&ending.holding, 1);
  remove_one();
  (void)pthread_mutex_unlock(&ending.lock);
  (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

EndingChild *ending_add(int target, int signal) {
  (void)pthread_mutex_lock(&ending.lock);
  EndingChild *child = begin() ? find_place() : NULL;
  if (child) {
    atomic_store(&child->signal, signal);
    atomic_store(&child->target, target);
    add_one();
  }
  (void)pthread_mutex_unlock(&ending.lock);
  return child;
}

void ending_remove(EndingChild *child) {
  (void)pthread_mutex_lock(&ending.lock);
  if (atomic_load(&ending.of) == getpid() && atomic_load(&child->target) != 0) {
    atomic_store(&child->target, 0);
    remove_one();
  }
  (void)pthread_mutex_unlock(&ending.lock);
}
