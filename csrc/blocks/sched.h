/* sched.h: the loop: it resumes ready go blocks, fires due timers and polls the driver, and waits in the driver when
   nothing is ready. */
#ifndef RUNNEL_SCHED_H
#define RUNNEL_SCHED_H

#include "core/state.h"

/* Runs until no go block is ready, no timer is pending and the driver expects no event; or until `awaited`, unless that
   is NULL, has ended, and then returns true. Its results are on top of its coroutine, which the caller must keep alive;
   or its error is on the mailbox, and it has ALT_RAISE. Raises what the driver raises. */
bool sched_run(lua_State *L, Sched *S, Go *awaited);

/* Runs the function with `nargs` arguments on top of L as a go block until it has ended. Pushes its results and returns
   how many they are; or raises its error, or a deadlock that names `what`. */
int sched_run_function(lua_State *L, Sched *S, int nargs, const char *what);

/* Fires due timers, polls the driver and runs ready go blocks: at most `max` of them, and none after `ns` have passed.
   Timers and the driver get their turn meanwhile, as in sched_run. Returns what sched_next would return then. */
int64_t sched_step(lua_State *L, Sched *S, lua_Integer max, int64_t ns);

/* Runs the loop, protected, until S->stop is set or nothing is left to wait for. Pushes whether it was stopped, or an
   error, and returns the status. */
int sched_call_loop(lua_State *L, Sched *S);

/* ns to the next deadline; 0 if a go block is ready, -1 if idle, INT64_MAX if only the driver may have events to come.
   May raise what the driver raises. */
int64_t sched_next(lua_State *L, Sched *S);

/* Raises when the caller is in a go block, or in code that the loop or a channel called. */
void sched_check_outside(lua_State *L, Sched *S, const char *what);

/* Sets up the scheduler's user values; its userdata is at SCHED_SELF. */
void sched_open(lua_State *L, uint64_t seed);

#endif
