/* timeout.h: timeout channels, which close at their time. As in core.async, requests within 10 ms of each other share one:
   a request for deadline t gets a pending one whose deadline is in [t, t + 10 ms). */
#ifndef RUNNEL_TIMEOUT_H
#define RUNNEL_TIMEOUT_H

#include "core/sched.h"

/* A timeout channel. Pending ones are kept alive by SCHED_TIMEOUTS. */
typedef struct Timeout {
  Chan chan;   /* closes at the deadline */
  Timer timer; /* in the scheduler's heap while pending */
} Timeout;

/* Pushes a timeout channel for `ns` from now. May raise. */
void timeout_push(lua_State *L, Sched *S, int64_t ns);

/* Closes the timeout whose timer is due and has left the heap. */
void timeout_fire(lua_State *L, Timer *timer);

#endif
