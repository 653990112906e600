/* spin.h: how long a thread looks at its inbox before it sleeps. A wakeup takes 10 to 20 us and some system calls, so
   two threads that exchange values in less than a microsecond must not sleep. Knows no clock.

   A thread that waits for another one that is awake looks for at most SPIN_USUAL: each look without a result halves the
   time, until the thread sleeps at once, for a number of sleeps that doubles with each failed attempt.

   A thread that has just woken the other one sleeps at once: no result can arrive so soon. But then both threads would
   sleep and wake each other for each value. So at times it looks for SPIN_LONG, and yields the processor meanwhile. If
   the answer arrives then, the other thread has found this one awake and looks for the next value, and from there on
   neither sleeps. After such a success the next long look may follow soon; after a failure it follows after more and
   more sleeps.

   While no result arrives in time, both looks together take less than SPIN_USUAL for each sleep on average. */
#ifndef RUNNEL_SHARED_SPIN_H
#define RUNNEL_SHARED_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
  SPIN_USUAL = 5000, /* ns */
  SPIN_LONG = 50000  /* ns; only with SpinTime.lets_others_run */
};

/* The sleeps between two attempts to look, while these fail. */
typedef struct SpinPause {
  uint32_t left;   /* until the next attempt */
  uint32_t length; /* between that attempt and the one after it; 0 while none has failed */
} SpinPause;

typedef struct Spin {
  int64_t usual;    /* the length of a look when the other thread is awake; 0 at first: SPIN_USUAL */
  SpinPause few;    /* before the next short look, once `usual` is too short */
  SpinPause seldom; /* before the next long look */
  uint8_t in_time;  /* successful short looks in a row */
  bool has_woken;   /* the last argument of spin_begin */
} Spin;

/* How long to look. */
typedef struct SpinTime {
  int64_t ns;           /* 0: do not look */
  bool lets_others_run; /* yield the processor after each look */
} SpinTime;

/* How long to look before the next sleep. `has_woken`: this thread has woken the one for which it waits. */
SpinTime spin_begin(Spin *spin, bool has_woken);

/* Notes whether a result has come within the time that spin_begin has returned. */
void spin_end(Spin *spin, bool has_come);

#endif
