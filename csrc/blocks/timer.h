/* timer.h: sleeps, and timeout channels, which close at their deadline. As in core.async, requests within 10 ms of each
   other share a timeout: a request for deadline t gets a pending timeout with a deadline in [t, t + 10 ms). */
#ifndef RUNNEL_TIMER_H
#define RUNNEL_TIMER_H

#include "core/state.h"

/* A timeout channel. SCHED_TIMEOUTS keeps pending ones alive. */
typedef struct Timeout {
  Chan chan;     /* closes at the deadline */
  Timer timer;   /* in the scheduler's heap while pending */
  uint32_t slot; /* its slot of SCHED_TIMEOUTS while pending */
} Timeout;

/* Makes room in the heap for one more timer. May raise. */
void timer_reserve(lua_State *L, Sched *S);

/* Puts `alt` to sleep until `deadline` (there must be room for the timer). */
void timer_sleep(Sched *S, Alt *alt, int64_t deadline);

/* Pushes a timeout channel for `ns` from now. May raise. */
void timer_push_timeout(lua_State *L, Sched *S, int64_t ns);

/* Wakes the sleepers, closes the timeouts and makes the calls that are due at `now`. Does not raise. */
void timer_fire_due(lua_State *L, Sched *S, int64_t now);

/* Whether the timer at place `i` of the heap has an effect when it is due. A timeout on which nothing waits has
   none. */
bool timer_wakes(const Heap *heap, uint32_t i);

/* Whether any timer of the heap has. Asked when no go block is ready and no event can come: then nothing can begin to
   wait on the other timeouts any more, so they do not count. */
bool timer_can_wake(World *w);

#endif
