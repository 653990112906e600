/* root.h: what keeps a go block alive.

   A go block that runs, is ready or sleeps is a strong root: it is in a table of the scheduler, which keeps it alive. A
   go block that is parked on channels must be collected when no other code can reach these channels (as in core.async).
   So it can be a weak root: it is in a weak table of the scheduler, and each of its channels keeps it alive.

   To make every parked go block weak would cost time at every park. So it stays strong until a sweep visits it and
   demotes it; the code that wakes it promotes it again. Nearly all parks are short, and pay nothing.

   A sweep visits some roots, and the next sweep continues from there, so that no sweep takes long. There are two kinds:

   - In every cycle of the collector (a sentinel's finalizer). If there are many roots, the loop visits the rest, some
     in each millisecond, unless it has not run since the last cycle. It demotes only go blocks that were also parked in
     the cycle before: with little memory in use cycles are frequent, and would demote each go block of a pipeline just
     before it goes on.
   - When a go block is started while many more are parked than after the last sweep. It demotes any parked go block:
     for the collector all strong roots are alive, so abandoned ones would pile up.

   A promotion can fail for lack of memory in one case: a finalizer resurrects a garbage channel, and wakes a go block
   on it. Lua clears weak references before it runs finalizers, so such a go block is in neither table. */
#ifndef RUNNEL_ROOT_H
#define RUNNEL_ROOT_H

#include "lifetimes/root_table.h"

/* Makes a new go block, whose userdata is at index `at`, a strong root. May raise. */
void root_add(lua_State *L, Sched *S, Go *go, int at);

/* Makes a parked weak root strong again: its channels do not keep it alive any more. Does not raise, but in the case
   above; then nothing has changed. */
void root_promote(lua_State *L, Sched *S, Go *go);

/* Promotes a weak root whose userdata is at index `at`. */
void root_make_strong(lua_State *L, Sched *S, Go *go, int at);

/* The loop calls this about once a millisecond, and before it waits: visits some of the roots that the last cycle of
   the collector has left, and makes the sentinel if the last cycle could not. Does not raise. */
void root_maintain(lua_State *L, Sched *S);

/* Sets up the tables and the sentinel; the scheduler's userdata is at SCHED_SELF. */
void root_open(lua_State *L);

#endif
