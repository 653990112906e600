/* sched.h: the loop: it resumes ready go blocks, fires due timers, and polls the driver, or waits in it if idle. */
#ifndef RUNNEL_SCHED_H
#define RUNNEL_SCHED_H

#include "core/state.h"

/* Runs until nothing is ready, no timer has an effect and the driver expects no event. Or, unless `awaited` is NULL,
   until that go block has ended, and then returns true: its results are on top of its coroutine, which the caller must
   keep alive; or it has ALT_RAISE, and its error is on the mailbox. Raises what the driver raises. */
bool sched_run(lua_State *L, Sched *S, Go *awaited);

/* Runs the function with its `nargs` arguments on top of L as a go block until it has ended. Pushes its results and
   returns how many they are; or raises its error, or a deadlock that names `what`. */
int sched_run_function(lua_State *L, Sched *S, int nargs, const char *what);

/* Fires due timers, polls the driver and runs ready go blocks: at most `max`, and none after `ns` have passed. Like
   sched_run, also serves timers and the driver meanwhile. Returns what sched_next would return then. */
int64_t sched_step(lua_State *L, Sched *S, lua_Integer max, int64_t ns);

/* Runs the loop, protected. Pushes whether S->stop ended it, else nothing was left; or an error. Returns the status. */
int sched_call_loop(lua_State *L, Sched *S);

/* Returns the ns to the next deadline; 0 if a go block is ready, -1 if idle, INT64_MAX if only the driver may have
   events. May raise what the driver raises. */
int64_t sched_next(lua_State *L, Sched *S);

/* Raises if the caller is in a go block, or in code that the loop or a channel has called. */
void sched_check_outside(lua_State *L, Sched *S, const char *what);

/* Sets up the scheduler's user values; its userdata is at SCHED_SELF. */
void sched_open(lua_State *L, uint64_t seed);

#endif
