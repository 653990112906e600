/* thread.c: see thread.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares pthread_setname_np */
#endif
#include "base/thread.h"

#include <stdio.h>

int thread_spawn(pthread_t *id, const char *name, void *(*run)(void *), void *data) {
  sigset_t old;
  signals_block(&old);
  int error = pthread_create(id, NULL, run, data);
  signals_restore(&old);
#if defined(__linux__)
  char shown[16]; /* the system refuses more */
  (void)snprintf(shown, sizeof shown, "%s", name);
  if (!error) (void)pthread_setname_np(*id, shown);
#else
  (void)name; /* a thread can only name itself, if at all */
#endif
  return error;
}

bool thread_open(Thread *thread) {
  thread->wakeup = wakeup_new();
  return thread->wakeup != NULL;
}

void thread_close(Thread *thread) {
  if (thread->wakeup) wakeup_release(thread->wakeup);
  thread->wakeup = NULL;
}

int thread_start(Thread *thread, const char *name, void *(*run)(void *), void *data) {
  if (thread->is_running) return 0;
  int error = thread_spawn(&thread->id, name, run, data);
  thread->is_running = error == 0;
  return error;
}

void thread_end(Thread *thread) {
  if (!thread->is_running) return;
  atomic_store(&thread->ends, true);
  thread_wake(thread);
  (void)pthread_join(thread->id, NULL);
  thread->is_running = false;
}
