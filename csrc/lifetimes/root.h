/* root.h: what keeps a go block alive.

   A go block that runs, is ready or sleeps is a strong root: the scheduler has a table of them, which keeps them alive.
   One that is parked on channels must live only as long as somebody can still reach one of them: core.async promises
   that a go block parked on channels which nobody else holds is collected. It would then be a weak root: the scheduler
   refers to it weakly, in another table, and each of the channels that it waits on keeps it alive.

   Making every parked go block weak would cost time at every park. So it stays strong until a sweep visits it and
   demotes it; whoever wakes it promotes it again. Nearly all parks are short, and pay nothing.

   A sweep visits some roots, and the next sweep goes on from there, so that none takes long. There are two kinds:

   - In every cycle of the collector (a sentinel's finalizer). If there are many roots, the loop visits the rest, some
     in each millisecond, unless it has not run since the last cycle. It demotes only go blocks that were parked already
     in the cycle before: with little memory in use cycles are frequent, and each go block of a pipeline would be
     demoted just before it goes on.
   - When a go block is started while many more are parked than after the last sweep. It demotes any go block that is
     parked: those that are started and abandoned would pile up, since for the collector all strong roots are alive.

   In one case promotion can fail for lack of memory: a finalizer resurrects a channel that was garbage, and wakes a go
   block on it. Weak references are cleared before finalizers run, so such a go block is in neither table. */
#ifndef RUNNEL_ROOT_H
#define RUNNEL_ROOT_H

#include "lifetimes/root_table.h"

/* Makes a new go block, whose userdata is at index `at`, a strong root. May raise. */
void root_add(lua_State *L, Sched *S, Go *go, int at);

/* Makes a parked weak root strong again; its channels do not keep it alive any more. Does not raise. */
void root_promote(lua_State *L, Sched *S, Go *go);

/* The same for one whose userdata is at index `at`. */
void root_make_strong(lua_State *L, Sched *S, Go *go, int at);

/* The loop calls this about once a millisecond, and before it waits: visits some of the roots that the last cycle of
   the collector has left. Makes the sentinel if it is missing, so that the next cycle sweeps: the last one may have had
   no memory, or no room on the stack, to make it. Does not raise. */
void root_maintain(lua_State *L, Sched *S);

/* Sets up the tables and the sentinel; the scheduler's userdata is at SCHED_SELF. */
void root_open(lua_State *L);

#endif
