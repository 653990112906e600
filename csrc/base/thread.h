/* thread.h: a thread that a C module starts beside the Lua thread. Knows no Lua.

   It gets no signals: they are for the program. It waits for its wakeup and for what else it polls, and ends when it is
   asked to. Another thread starts it, wakes it and joins it:

     if (!thread_open(&thread)) ...                          // no descriptor, or no memory
     int error = thread_start(&thread, "runnel-name", run, data);
     thread_wake(&thread);
     thread_end(&thread);                                    // asks it to end, and waits until it has
     thread_close(&thread);

   and `run` is a loop: `while (!thread_ends(thread)) { poll(... wakeup_fd(thread->wakeup) ...);
   (void)wakeup_consume(thread->wakeup); ... }`. */
#ifndef RUNNEL_THREAD_H
#define RUNNEL_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/wakeup.h"

typedef struct Thread {
  pthread_t id;     /* for joining it */
  bool is_running;  /* it has been started and not joined; used by the thread that does both */
  atomic_bool ends; /* it is to end */
  Wakeup *wakeup;   /* wakes it, with a reference; or NULL */
} Thread;

/* Makes the wakeup of a thread that is zeros; false, with errno, on failure. thread_close releases it, and does nothing
   if there is none. */
bool thread_open(Thread *thread);
void thread_close(Thread *thread);

/* Starts the thread, which runs run(data). Tools show the name, or its first 15 bytes. Returns an error number; 0 also
   if it runs already. */
int thread_start(Thread *thread, const char *name, void *(*run)(void *), void *data);

/* Asks it to end, wakes it, and waits until it has ended. Does nothing if it does not run. */
void thread_end(Thread *thread);

/* Wakes it. Any thread. */
static inline void thread_wake(const Thread *thread) { wakeup_signal(thread->wakeup); }

/* Whether it is to end. Any thread. */
static inline bool thread_ends(const Thread *thread) { return atomic_load(&thread->ends); }

/* Starts a thread that is not woken by a Wakeup; otherwise as thread_start. Its stack has room for Lua's 200 nested C
   calls. */
int thread_spawn(pthread_t *id, const char *name, void *(*run)(void *), void *data);

/* Blocks all signals in this thread until signals_restore; threads that are started meanwhile never get any. */
static inline void signals_block(sigset_t *old) {
  sigset_t all;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, old);
}

static inline void signals_restore(const sigset_t *old) { (void)pthread_sigmask(SIG_SETMASK, old, NULL); }

#endif
