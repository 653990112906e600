/* anchor.h: who keeps a go block alive.

   A go block that runs, is ready or sleeps is held by the scheduler, in a slot of a table. One that is parked on channels
   must live only as long as somebody can still reach one of them: core.async promises that a go block parked on channels
   which nobody else holds is collected. Anchoring every park in its channel costs time on every park. So a parked block
   stays in its slot until a pass over all slots hands it over to its channels, and comes back when it is woken. Short
   parks, nearly all, pay nothing.

   A pass is made at every cycle of the collector (a sentinel's finalizer), and whenever many blocks have been
   started since the last one: else the collector, which sees all that the slots hold as alive, would let blocks that are
   started and abandoned pile up. A block handed over keeps its slot reserved, so that bringing it back cannot fail for
   want of memory; the passes free the slots of those that have been collected.

   One case is left in which it can fail: a finalizer brings a channel back that was garbage, and wakes a block on it. Weak
   values are cleared before finalizers run, so that such a block looks collected and has lost its slot. */
#ifndef RUNNEL_ANCHOR_H
#define RUNNEL_ANCHOR_H

#include "sched.h"

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

/* Hands every block that is parked on channels over to them. Where memory runs out the rest stays as it was. */
void anchor_hand_over(lua_State *L);

/* Makes sure that a pass is made at the next cycle of the collector. May raise. */
void anchor_watch(lua_State *L);

/* Pushes the userdata of the go block in a slot, held or handed over, or nil. */
void anchor_push_slot(lua_State *L, uint32_t slot);

/* Sets up the tables and the sentinel; the scheduler's userdata is at SCHED_SELF. */
void anchor_open(lua_State *L);

#endif
