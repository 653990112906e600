/* races.h: the races of a run: see reduce.h. */
#ifndef RUNNEL_RACES_H
#define RUNNEL_RACES_H

#include "sim/reduce_state.h"

/* Whether this go block was tried at the place, is tried there now, must be tried, or sleeps. */
bool races_has(const Reduce *r, const Place *place, uint64_t turn);

/* Adds what must be tried at a place, unless races_has the first of the go blocks. */
void races_try(Reduce *r, Place *place, const uint64_t *turns, uint32_t n);

/* Looks for the races of the run's steps from r->from on, and notes what must be tried for each. There is a step. */
void races_find(Reduce *r);

#endif
