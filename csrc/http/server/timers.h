/* timers.h: timers of connections: a wheel with a slot for each tick. Setting a timer takes constant time, and moving
   its deadline further away costs nothing. A timer may fire early: its owner then sets it again. */
#ifndef RUNNEL_HTTP_TIMERS_H
#define RUNNEL_HTTP_TIMERS_H

#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

/* The number of slots, and the duration of a tick in ns: a timer fires at most one tick late. */
enum { TIMER_SLOTS = 128 };
#define TIMER_TICK (25 * CLOCK_MS)

/* A timer: a field of the structure that owns it. Begins as zeros. */
typedef struct SlotTimer {
  Link link;    /* in a slot of Timers */
  int64_t tick; /* the tick when it fires */
  int slot;     /* the number of the slot */
} SlotTimer;

/* Begins as zeros, except for `tick`, which is the current tick. */
typedef struct Timers {
  List slots[TIMER_SLOTS]; /* SlotTimer.link */
  int64_t tick;            /* the last tick that has fired */
  uint32_t n;              /* timers that are set */
} Timers;

static inline int64_t timers_tick(int64_t ns) { return ns / TIMER_TICK; }

/* Stops a timer, if it is set. */
void timers_remove(Timers *timers, SlotTimer *timer);

/* Makes a timer fire at the time `due`, in ns, or earlier. */
void timers_set(Timers *timers, SlotTimer *timer, int64_t due);

/* Removes and returns a timer that is due at a time; NULL if there is none. */
SlotTimer *timers_take(Timers *timers, int64_t now);

/* When the next timer fires; INT64_MAX: none is set. */
int64_t timers_due(const Timers *timers);

#endif
