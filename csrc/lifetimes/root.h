/* root.h: what keeps a go block alive.

   A go block that runs, is ready or sleeps is a strong root: the scheduler has a table of them, which keeps them alive.
   One that is parked on channels must live only as long as somebody can still reach one of them: core.async promises
   that a go block parked on channels which nobody else holds is collected. It would then be a weak root: the scheduler
   refers to it weakly, in another table, and each of the channels that it waits on keeps it alive.

   Making every parked go block weak would cost time at every park. So it stays strong until a sweep visits it and
   demotes it; whoever wakes it promotes it again. Short parks, nearly all, pay nothing.

   A sweep visits some roots and goes on there the next time, so that none takes long. There is one in every cycle of
   the collector (a sentinel's finalizer); if there are many roots, the loop visits the rest, some in each millisecond,
   unless it did not run since the last cycle. These demote what was parked already in the cycle before: with little memory
   in use there are many cycles, in which each go block of a pipeline would be demoted although it is about to go on. And
   there is one whenever a go block is started while more are parked than in the last round. That demotes whatever is
   parked: go blocks that are started and abandoned would pile up, since the collector sees all strong roots as alive.

   In one case promotion can fail for lack of memory: a finalizer resurrects a channel that was garbage, and wakes a go
   block on it. Weak references are cleared before finalizers run, so such a go block is in neither table. */
#ifndef RUNNEL_ROOT_H
#define RUNNEL_ROOT_H

#include "lifetimes/root_table.h"

/* Makes a new go block, whose userdata is at index `at`, a strong root. May raise. */
void root_add(lua_State *L, Sched *S, Go *go, int at);

/* Makes a parked weak root strong again; its channels let go of it. Does not raise. */
void root_promote(lua_State *L, Sched *S, Go *go);

/* The same for one whose userdata is at index `at`. */
void root_make_strong(lua_State *L, Sched *S, Go *go, int at);

/* To be called now and then by the loop: visits some of the roots that the last cycle of the collector has left. Makes the
   sentinel if it is missing, so that the next cycle sweeps: the last one may have had no memory, or no room on the stack,
   to make it. Does not raise. */
void root_watch(lua_State *L, Sched *S);

/* Sets up the tables and the sentinel; the scheduler's userdata is at SCHED_SELF. */
void root_open(lua_State *L);

#endif
