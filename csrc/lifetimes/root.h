/* root.h: what keeps a go block alive.

   A go block that runs, is ready or sleeps is a strong root: the scheduler keeps it alive, in a slot of a table. One
   that is parked on channels must live only as long as somebody can still reach one of them: core.async promises that a
   go block parked on channels which nobody else holds is collected. It would then be a weak root: its slot refers to it
   weakly, and each of the channels that it waits on keeps it alive.

   Making every parked go block weak would cost time at every park. So it stays strong until a sweep visits its slot and
   demotes it; whoever wakes it promotes it again. Short parks, nearly all, pay nothing.

   A sweep visits a few slots at a time, so that none takes longer as there are more go blocks. There is one in every
   cycle of the collector (a sentinel's finalizer), which demotes what was parked in the same operation at its last
   visit: with little memory in use there are many cycles, in which each go block of a pipeline would be demoted although
   it is about to go on. And there is one whenever a go block is started and many more are parked than at the last sweep.
   That demotes whatever is parked: go blocks that are started and abandoned would pile up, since the collector sees
   everything in the slots as alive. A weak root keeps its slot, so that promoting it cannot fail for lack of memory;
   later sweeps free the slots of those that have been collected.

   In one case promotion can fail for lack of memory: a finalizer resurrects a channel that was garbage, and wakes a go
   block on it. Weak references are cleared before finalizers run, so such a go block looks collected and has lost its
   slot. */
#ifndef RUNNEL_ROOT_H
#define RUNNEL_ROOT_H

#include "core/state.h"

/* Makes a new go block, whose userdata is at index `at`, a strong root. May raise. */
void root_add(lua_State *L, Sched *S, Go *go, int at);

/* Pushes the userdata of a strong root. */
void root_push(lua_State *L, const Go *go);

/* Frees the slot of a strong root, which has ended. Pushes two values: the table of slots, which it has used and which
   would take time to remove, and the userdata. */
void root_remove(lua_State *L, Sched *S, Go *go);

/* Makes a parked weak root strong again; its channels let go of it. Does not raise. */
void root_promote(lua_State *L, Sched *S, Go *go);

/* The same for one whose userdata is at index `at`. */
void root_make_strong(lua_State *L, Sched *S, Go *go, int at);

/* Makes the sentinel if it is missing, so that the next cycle of the collector sweeps: the last one may have had no
   memory, or no room on the stack, to make it. Also makes tables smaller that have become too large. To be called now
   and then by the loop. Does not raise. */
void root_watch(lua_State *L, Sched *S);

/* Pushes the userdata of the go block in a slot, strong or weak, or nil. */
void root_push_slot(lua_State *L, uint32_t slot);

/* Sets up the tables and the sentinel; the scheduler's userdata is at SCHED_SELF. */
void root_open(lua_State *L);

#endif
