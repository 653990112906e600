/* spin.h: how long a thread looks at its inbox before it sleeps. Being woken takes 10 to 20 us and some system calls,
   so two threads that pass values to and fro in less than a microsecond must not sleep. Knows no clock.

   A thread that waits for another one that is awake looks for at most SPIN_USUAL: half as long each time that was in
   vain, then not at all for some sleeps, more and more of them.

   A thread that has just woken the other one knows that nothing can come so soon, and sleeps at once. But then both
   would go on to sleep and to wake each other for each value. So at times it looks for SPIN_LONG, and lets other
   threads run meanwhile. If the answer comes then, the other thread has found this one awake and looks for what it
   sends next, and neither sleeps from there on. Then the next long look need not wait; else it comes after more and
   more sleeps.

   As long as nothing comes in time, both are less than SPIN_USUAL for each sleep on average. */
#ifndef RUNNEL_SHARED_SPIN_H
#define RUNNEL_SHARED_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
  SPIN_USUAL = 5000, /* ns */
  SPIN_LONG = 50000  /* ns; only with SpinTime.lets_others_run */
};

/* Waits between two attempts, while these are in vain. */
typedef struct SpinPause {
  uint32_t left;   /* until the next one */
  uint32_t length; /* between that one and the one after it; 0 as long as none was in vain */
} SpinPause;

typedef struct Spin {
  int64_t usual;    /* the time to look when the other thread is awake; 0 at first, which is SPIN_USUAL */
  SpinPause few;    /* before that is tried again once it has become too short */
  SpinPause seldom; /* before the next long time */
  uint8_t in_time;  /* short looks, one after another, in which something has come */
  bool has_woken;   /* the last argument of spin_begin */
} Spin;

/* How long to look. */
typedef struct SpinTime {
  int64_t ns;           /* 0: not at all */
  bool lets_others_run; /* to yield the processor after each look */
} SpinTime;

/* The time to look before the next sleep. `has_woken`: this thread has woken the one for which it waits. */
SpinTime spin_begin(Spin *spin, bool has_woken);

/* Notes whether something has come in the time that spin_begin has returned. */
void spin_end(Spin *spin, bool has_come);

#endif
