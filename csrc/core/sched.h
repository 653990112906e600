/* sched.h: the loop: it resumes ready go blocks, fires due timers and polls the driver, and waits in the driver when
   nothing is ready. */
#ifndef RUNNEL_SCHED_H
#define RUNNEL_SCHED_H

#include "core/state.h"

/* Runs until `awaited` has ended, or with NULL until nothing is ready, timed or alive. Returns false if that came before
   awaited had ended. If it has ended, its results are on top of its coroutine, which the caller must keep alive; or its
   error is on the mailbox, and it has ALT_RAISE. */
bool sched_run(lua_State *L, Sched *S, Go *awaited);

/* Fires due timers, polls the driver and runs ready go blocks: at most `max` of them, and none any more once `ns` have
   passed. Timers and the driver get their turn meanwhile, as in sched_run. Returns what sched_next would return then. */
int64_t sched_step(lua_State *L, Sched *S, lua_Integer max, int64_t ns);

/* Runs the loop, protected, until S->stop is set or nothing is left to wait for. Pushes whether it was stopped, or an
   error, and returns the status. */
int sched_call_loop(lua_State *L, Sched *S);

/* ns to the next deadline, 0 when something is ready, -1 when idle, INT64_MAX when only the driver has something alive.
   May raise what the driver raises. */
int64_t sched_next(lua_State *L, Sched *S);

/* Raises when the caller is in a go block, or in code that the loop or a channel called. */
void sched_check_outside(lua_State *L, Sched *S, const char *what);

/* Ends this world and returns to the outer one. Go blocks of this world that are ready or asleep are dropped, since
   nobody will run them; go blocks of the outer world that were woken here go on there. */
void sched_end_world(lua_State *L, Sched *S);

/* Sets up the scheduler's user values; its userdata is at SCHED_SELF. */
void sched_open(lua_State *L, uint64_t seed);

#endif
