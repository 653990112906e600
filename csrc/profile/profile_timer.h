/* profile_timer.h: a signal each time the calling thread has used a given processor time, in ns. */
#ifndef RUNNEL_PROFILE_TIMER_H
#define RUNNEL_PROFILE_TIMER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if !defined(__linux__)
typedef int timer_t; /* never used: profile_timer_start fails */
#endif

typedef struct ProfileTimer {
  void (*tick)(void *data, int64_t ns); /* called by the signal's handler; ns that have been used since the last call */
  void *data;                           /* its argument */
  int64_t period;                       /* ns; the kernel sends a signal at its own ticks, 1 to 10 ms, at most */
  int64_t used;                         /* the processor time when the last signal was handled, in ns */
  int64_t present; /* the present period, in ns: longer than `period` while the handler takes long */
  timer_t timer;   /* the kernel's timer */
  sigset_t mask;   /* the signals that were blocked before */
} ProfileTimer;

/* What the calling thread has used so far. */
typedef struct ThreadUse {
  int64_t used;  /* processor time, in ns */
  int64_t waits; /* how often it has waited in the kernel, and so given up the processor itself */
} ThreadUse;

ThreadUse profile_timer_use(void);

/* Starts the timer for the calling thread; `tick`, `data` and `period` are set. Returns an error number; ENOSYS where
   the system has no such timer, EBUSY if the program uses SIGPROF. */
int profile_timer_start(ProfileTimer *timer);

/* Stops it, in the same thread. No handler uses the timer from here on. */
void profile_timer_stop(ProfileTimer *timer);

#endif
