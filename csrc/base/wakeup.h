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

/* The descriptor that is readable while a signal is pending, or a reader has something to read. Only the functions here
   may read from it. It may become another one when there is a first reader. */
int wakeup_fd(const Wakeup *wakeup);

/* The same, but it stays the same: if need be, there will be no readers. The scheduler's thread only. */
int wakeup_lasting_fd(Wakeup *wakeup);

/* ---- readers ----

   A reader is a function that the scheduler's thread calls while a descriptor of the program can be read. */
typedef struct runnel_reader {
  void (*ready)(void *data); /* called by wakeup_consume; may signal the wakeup */
  void *data;                /* for `ready` */
  Wakeup *wakeup;            /* with a reference; wakeup_reads has returned true */
  int fd;                    /* the descriptor that it waits for; -1: none */
} Reader;                    /* the other name is that of the C API */

/* Whether there can be readers: on Linux only, and not after a lasting descriptor could not be made for them. The
   scheduler's thread only. */
bool wakeup_reads(Wakeup *wakeup);

/* Makes the reader wait for another descriptor, or for none: -1. Returns false if it cannot. Any thread, one at a time;
   before the present descriptor is closed. In another thread than the scheduler's, `ready` may be called once more for
   the present one. */
bool reader_watch(Reader *reader, int fd);

#endif
