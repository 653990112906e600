/* timers.h: when connections must be looked at. A wheel of slots, one for each tick: setting a timer takes constant time,
   and a deadline that moves further away costs nothing. A timer may fire early: its owner then sets it again. */
#ifndef RUNNEL_HTTP_TIMERS_H
#define RUNNEL_HTTP_TIMERS_H

#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

/* How many slots there are; and the time of one in ns: a timer fires at most this late. */
enum { TIMER_SLOTS = 128 };
#define TIMER_TICK (25 * CLOCK_MS)

/* A field of what it belongs to; begins as zeros. */
typedef struct SlotTimer {
  Link link;    /* in a slot of Timers */
  int64_t tick; /* of that slot */
  int slot;     /* its number */
} SlotTimer;

/* Begins as zeros, with `tick` set to that of now. */
typedef struct Timers {
  List slots[TIMER_SLOTS]; /* SlotTimer.link */
  int64_t tick;            /* that was fired last */
  uint32_t n;              /* timers that are set */
} Timers;

static inline int64_t timers_tick(int64_t ns) { return ns / TIMER_TICK; }

/* Stops a timer, if it is set. */
void timers_remove(Timers *timers, SlotTimer *timer);

/* Makes a timer fire at a time in ns, or earlier. */
void timers_set(Timers *timers, SlotTimer *timer, int64_t due);

/* Removes a timer that fires at a time and returns it; NULL if there is none. */
SlotTimer *timers_take(Timers *timers, int64_t now);

/* How many ms there are until a timer fires; -1: none is set. */
int timers_wait(const Timers *timers, int64_t now);

#endif
