/* former.c: see former.h. */
#include "port/former.h"

#include <pthread.h>

enum { SIGNALS = 65 };

/* A process has one action for each signal, so all states share this. */
typedef struct Former {
  int keeps;               /* how many catch it: former_keep without former_restore */
  struct sigaction action; /* if any do: the action before them */
} Former;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Former formers[SIGNALS];

static bool is_known(int number) { return number > 0 && number < SIGNALS; }

void former_keep(int number) {
  if (!is_known(number)) return;
  Former *f = &formers[number];
  (void)pthread_mutex_lock(&lock);
  if (f->keeps == 0) (void)sigaction(number, NULL, &f->action);
  f->keeps++;
  (void)pthread_mutex_unlock(&lock);
}

void former_caught(int number) {
  if (!is_known(number)) return;
  Former *f = &formers[number];
  struct sigaction now;
  (void)pthread_mutex_lock(&lock);
  if (sigaction(number, NULL, &now) == 0 && now.sa_handler == f->action.sa_handler) f->action.sa_handler = SIG_DFL;
  (void)pthread_mutex_unlock(&lock);
}

void former_restore(int number) {
  if (!is_known(number)) return;
  Former *f = &formers[number];
  struct sigaction now;
  (void)pthread_mutex_lock(&lock);
  if (--f->keeps == 0 && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
    (void)sigaction(number, &f->action, NULL);
  }
  (void)pthread_mutex_unlock(&lock);
}

bool former_get(int number, struct sigaction *action) {
  if (!is_known(number)) return false;
  Former *f = &formers[number];
  (void)pthread_mutex_lock(&lock);
  bool ok = true;
  if (f->keeps > 0) *action = f->action;
  else ok = sigaction(number, NULL, action) == 0;
  (void)pthread_mutex_unlock(&lock);
  return ok;
}

void former_set(int number, const struct sigaction *action) {
  if (!is_known(number)) return;
  Former *f = &formers[number];
  (void)pthread_mutex_lock(&lock);
  if (f->keeps > 0) f->action = *action;
  else (void)sigaction(number, action, NULL);
  (void)pthread_mutex_unlock(&lock);
}
