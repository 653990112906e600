/* anchor.h: who keeps a go block alive.

   A go block that runs, is ready or sleeps is held by the scheduler, in a slot of a table. One that is parked on channels
   must live only as long as somebody can still reach one of them: core.async promises that a go block parked on channels
   which nobody else holds is collected. Anchoring every park in its channel costs time on every park. So a parked block
   stays in its slot until somebody visits the slot and hands the block over to its channels, and comes back when it is woken.
   Short parks, nearly all, pay nothing.

   The slots are visited a few at a time, in turn, so that nothing takes longer as there are more of them: at every cycle of
   the collector (a sentinel's finalizer), and by whoever starts a block when many more are parked than at the last visit: else
   the collector, which sees all that the slots hold as alive, would let blocks that are started and abandoned pile up. A
   block handed over keeps its slot reserved, so that bringing it back cannot fail for want of memory; later visits free the
   slots of those that have been collected.

   One case is left in which it can fail: a finalizer brings a channel back that was garbage, and wakes a block on it. Weak
   values are cleared before finalizers run, so that such a block looks collected and has lost its slot. */
#ifndef RUNNEL_ANCHOR_H
#define RUNNEL_ANCHOR_H

#include "core/sched.h"

/* Holds a go block, whose userdata is at index `at`. May raise. */
void anchor_hold(lua_State *L, Sched *S, Go *go, int at);

/* Pushes the userdata of a go block that is held. */
void anchor_push(lua_State *L, const Go *go);

/* Pushes the userdata of a go block that has ended, and lets go of it. */
void anchor_pop(lua_State *L, Sched *S, Go *go);

/* Takes a parked block that was handed over back from its channels. Does not raise. */
void anchor_bring_back(lua_State *L, Sched *S, Go *go);

/* Takes a block that was handed over, whose userdata is at index `at`, back without telling its channels, which cannot be
   found any more. */
void anchor_reclaim(lua_State *L, Sched *S, Go *go, int at);

/* Makes sure that the next cycle of the collector visits slots: it may have had no memory, or no room on the stack, to do so at
   the last. To be called now and then. Does not raise. */
void anchor_tend(lua_State *L, Sched *S);

/* Pushes the userdata of the go block in a slot, held or handed over, or nil. */
void anchor_push_slot(lua_State *L, uint32_t slot);

/* Sets up the tables and the sentinel; the scheduler's userdata is at SCHED_SELF. */
void anchor_open(lua_State *L);

#endif
