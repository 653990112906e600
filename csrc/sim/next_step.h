/* next_step.h: which go block of a search's run runs next, and when the run ends. */
#ifndef RUNNEL_NEXT_STEP_H
#define RUNNEL_NEXT_STEP_H

#include "sim/explore.h"

/* The next ready go block, still in the run queue, which is not empty. Raises to end a run that is given up or went
   astray; or a livelock. May fire a timer. */
Link *explore_next(lua_State *L, Sched *S);

/* How many of `n` steps a run that looks for leaks may still take: 0 if the go blocks that are left go on for ever, as
   far as a fair order shows. `n` if no search runs. */
uint32_t explore_steps_left(const World *w, uint32_t n);

/* Nothing is ready in the world: time jumps, or the search's function gets the error of a deadlock. */
void explore_rest(const World *w);

#endif
