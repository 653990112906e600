/* busy.h: the time of a simulation in which a go block is always ready. Time jumps when nothing is ready, so a loop that
   polls, and never waits, would stop it. In reality time passes meanwhile. So it does here, after many steps without a
   jump: a little at each further step, and more and more, so that a loop that waits for an hour ends, too.

   A step is the resume of a go block or a reading of the clock; in sim.run and sim.each_seed, where a simulation may do
   a million steps at one time, a poll counts as several. */
#ifndef RUNNEL_BUSY_H
#define RUNNEL_BUSY_H

#include "core/state.h"

/* Steps; within each further unit without a jump, a step takes twice as long. As many units are in the limit of steps of
   a search's run. */
enum { BUSY_UNIT = 20000, BUSY_UNITS = 50 };

/* How many steps a yield, or a sleep or timeout of 0 ms, adds to its resume. */
enum { BUSY_POLL = 4 };

/* Adds steps, outside of a search. For any world; only simulations count. */
void busy_add(Sched *S, uint32_t n);

/* A go block reads the clock. Raises when a simulation that is not a search has run for too long without a jump. */
void busy_read(lua_State *L, Sched *S);

/* A go block is about to be resumed. Raises a livelock when a simulation that is not a search has run for too long
   without a jump. May make a timer due, and then fires it. */
void busy_step(lua_State *L, Sched *S);

/* Raises the error of a livelock after `steps` steps, which lists the go blocks that are ready. */
int busy_raise_livelock(lua_State *L, uint32_t steps);

#endif
