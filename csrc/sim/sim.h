/* sim.h: simulations: a function runs in a world of its own, with a virtual clock, a run queue and random numbers of
   its own. Everything else, channels included, is shared with the outer world. */
#ifndef RUNNEL_SIM_H
#define RUNNEL_SIM_H

#include "core/state.h"

/* How a simulation runs. */
typedef struct SimOptions {
  uint64_t seed;           /* of all random numbers */
  bool shuffle;            /* run ready go blocks in random order */
  bool leaks;              /* when the function has returned, run on until nothing is ready or timed, and raise an error
                              if a go block is left that the program has started */
  struct Explore *explore; /* what makes the choices, or NULL */
} SimOptions;

/* Runs the function at index `at` of L with the arguments above it in a new world, until it has ended. Replaces them by
   its results and returns true, or by its error and returns false. Sets the virtual time that has passed, in ns. What
   is ready or timed in the outer world waits meanwhile. May raise before it begins. */
bool sim_run(lua_State *L, Sched *S, int at, const SimOptions *options, int64_t *elapsed);

/* Pops a function, or nil. It is called when nothing is ready and no timer is pending while the function of a
   simulation waits, with false: it returns whether it has made a go block ready. When that function has returned, it is
   called around the search for leaks, with true. An error of it is dropped. */
void sim_set_at_rest(lua_State *L);

/* Whether a host of the running simulation (Go.host) has go blocks, besides the running one. */
bool sim_has_go(lua_State *L, uint32_t host);

/* Drops the go blocks of a host of the running simulation (Go.host), except the running one: they do not go on, and
   their to-be-closed variables are not closed. */
void sim_crash(lua_State *L, uint32_t host);

#endif
