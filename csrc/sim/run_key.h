/* run_key.h: the key of a run: see reduce.h. */
#ifndef RUNNEL_RUN_KEY_H
#define RUNNEL_RUN_KEY_H

#include "sim/explore.h"
#include "sim/reduce_state.h"

/* The key of the run, not 0. Its choices were e->made. */
uint64_t run_key(Reduce *r, const Explore *e);

#endif
