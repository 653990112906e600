/* wakeup.h: how another thread wakes a sleeping scheduler: an eventfd, or a pipe where there are none. The first signal
   writes into it, and later ones do not until the scheduler has consumed it, so that a burst of signals is one wakeup.
   Knows no Lua. A polling thread can replace the scheduler.

   Wakeups are reference counted: the scheduler and every thread that may signal hold one reference each. A thread can
   therefore signal after the lua_State is closed. */
#ifndef RUNNEL_WAKEUP_H
#define RUNNEL_WAKEUP_H

#include <stdbool.h>

typedef struct Wakeup Wakeup;

/* A wakeup with one reference, or NULL if there is no memory or no file descriptor left (see errno). */
Wakeup *wakeup_new(void);

/* Adds a reference, and removes one; the last one frees it. Any thread. */
Wakeup *wakeup_hold(Wakeup *wakeup);
void wakeup_release(Wakeup *wakeup);

/* Wakes the scheduler. Any thread, but no signal handler. */
void wakeup_signal(Wakeup *wakeup);

/* Whether there was a signal since the last call. The scheduler's thread only. */
bool wakeup_consume(Wakeup *wakeup);

/* Whether wakeup_consume would return true. */
bool wakeup_is_pending(const Wakeup *wakeup);

/* The descriptor that is readable while a signal is pending. Only the functions here may read from it. */
int wakeup_fd(const Wakeup *wakeup);

#endif
