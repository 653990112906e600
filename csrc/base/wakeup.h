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

/* The descriptor that is readable while a signal is pending, or something in the set is to be handled. Only the
   functions here may read from it. It becomes another one when there is a set. */
int wakeup_fd(Wakeup *wakeup);

/* After a fork, in the child: gives it descriptors of its own, with the same numbers, since those of the parent are the
   parent's. The functions above do so by themselves. */
void wakeup_own(Wakeup *wakeup);

/* ---- a set of more descriptors, for port/reader.c ---- */

typedef struct WakeupSet {
  int fd;                                          /* readable when the wakeup's own, or one of the set, is readable */
  bool (*call)(struct WakeupSet *set);             /* handles what is readable, by calls that may signal the wakeup;
                                                     returns whether there was any. In the scheduler's thread */
  void (*renew)(struct WakeupSet *set, int token); /* wakeup_own: makes a new `fd`; `token` is the wakeup's own */
  void (*free)(struct WakeupSet *set);             /* with the wakeup */
} WakeupSet;

/* What port/reader.c sets, in the scheduler's thread. */
typedef struct WakeupMore {
  WakeupSet *set; /* or NULL */
  bool is_kept;   /* wakeup_fd stays the same: no set may be added any more */
} WakeupMore;
WakeupMore *wakeup_more(Wakeup *wakeup);

/* Makes the number `old` mean the descriptor `fd`, whose own number is closed; false if the system refuses. */
bool wakeup_replace(int fd, int old);

#endif
