/* thread.c: see thread.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares pthread_setname_np */
#endif
#include "base/thread.h"

#include <stdio.h>

/* The stack of a thread: Lua allows 200 nested C calls, and one with a luaL_Buffer, as string.gsub, takes 3 KB. Some
   systems give less than that, as musl (128 KB) and macOS (512 KB); where a process has 4 GB of addresses, more would
   leave room for few threads. */
#define STACK_SIZE ((size_t)1024 * 1024)

/* Asks for STACK_SIZE where the system's own size is less, or too much. */
static void choose_stack(pthread_attr_t *attr) {
  size_t usual = 0;
  if (pthread_attr_getstacksize(attr, &usual) != 0) return;
  if (usual < STACK_SIZE || sizeof(size_t) <= 4) (void)pthread_attr_setstacksize(attr, STACK_SIZE);
}

int thread_spawn(pthread_t *id, const char *name, void *(*run)(void *), void *data) {
  pthread_attr_t attr;
  int error = pthread_attr_init(&attr);
  if (error) return error;
  choose_stack(&attr);
  sigset_t old;
  signals_block(&old);
  error = pthread_create(id, &attr, run, data);
  signals_restore(&old);
  (void)pthread_attr_destroy(&attr);
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
