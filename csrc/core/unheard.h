/* unheard.h: errors of go blocks that nobody has taken yet.

   A go block that raises closes its result channel with the error. An error that somebody takes, as `nil, err`, is not
   reported. An error that nobody has taken after GRACE is reported once: most programs that want an error take it
   sooner, and the log of a server gets it without much delay. At the end of the program or of a simulation, and before
   the main program raises a deadlock, all errors that are left are reported.

   The collector could find out exactly whether anybody can still take an error. But in an idle server it would run too
   late, and simulations would not be reproducible.

   A for loop over a channel drops the error with which the channel was closed; that does not count as taking it
   (ALT_LOOP). Functions of the library that take an error and close another channel with it pass it on: then it must be
   taken from that channel. */
#ifndef RUNNEL_UNHEARD_H
#define RUNNEL_UNHEARD_H

#include "core/state.h"

/* Keeps an error until somebody takes it from the channel at index `at`, or it is time to report it. On top of L and
   popped: the error, its traceback or nil, the go block's name. Reports the error at once if memory runs out. Does not
   raise. */
void unheard_add(lua_State *L, Sched *S, int at);

/* Drops the errors that were taken, and reports those whose time has come at `now`; INT64_MAX: all. Does not raise, but
   it calls the error handler, which may run any code. */
void unheard_report(lua_State *L, Sched *S, int64_t now);

/* When the next one is to be reported; INT64_MAX when there is none. */
static inline int64_t unheard_deadline(const Sched *S) { return S->world.unheard ? S->world.unheard_due : INT64_MAX; }

/* ns until the next one is to be reported, or -1 when there is none. For a program with a loop of its own, which may
   have nothing else to wait for. */
static inline int64_t unheard_left(const Sched *S) {
  if (LIKELY(!S->world.unheard)) return -1;
  int64_t left = S->world.unheard_due - clock_now(&S->world.clock);
  return left > 0 ? left : 0;
}

/* Adds its functions to the module on top of L; the scheduler's userdata is at SCHED_SELF. */
void unheard_open(lua_State *L);

#endif
