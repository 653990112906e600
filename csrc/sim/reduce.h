/* reduce.h: a depth-first search that runs one order of each set of equivalent ones: source sets with sleep sets
   (Abdulla, Aronis, Jonsson, Sagonas: Optimal Dynamic Partial Order Reduction, 2014).

   Two orders are equivalent if one becomes the other by changing the places of neighbouring steps that do not depend on
   each other (sim/footprint.h). After each run the search looks for races: two steps that depend on each other, and that
   nothing else puts in this order. For each of them it notes, at the place of the first one, a go block that begins the
   other order. A go block that was tried at a place sleeps at the places that follow, until a step depends on what it
   would do: until then each order with it is equivalent to one that was run. Then it may do less than when it was tried:
   it waits, and does not do what follows. It counts as if it had touched the same, or races with it would be missed (the
   order of what depends on each other must not shrink so: property 7 there).

   Each run has a key, which is the same for equivalent runs: for each object the order of the steps that have touched
   it. After a complete search, a run in any order must have a known key, or go blocks share what the search cannot
   see. */
#ifndef RUNNEL_REDUCE_H
#define RUNNEL_REDUCE_H

#include "core/observe.h"
#include "sim/explore.h"
#include "sim/reduce_state.h"

/* What the core tells of the steps. The running search has a `reduce`. */
extern const Observer reduce_observer;

/* The reduction that follows the run of this world, or NULL. */
static inline Reduce *reduce_running(const World *w) {
  const Explore *e = w->explore;
  return e && e->reduce && e->reduce->is_on ? e->reduce : NULL;
}

/* Begins a run that is followed. The latter ends it, and returns false if memory has run out. `is_whole`: it was not
   given up. */
void reduce_begin(lua_State *L, Reduce *r, bool is_path);
bool reduce_end(lua_State *L, const Explore *e, bool is_whole);

/* Ends the last step and begins another one, for which the first `next` ready go blocks may be chosen. Returns the first
   of them that does not sleep, from 0 on; or UINT32_MAX: all sleep, or memory has run out. */
uint32_t reduce_next(Reduce *r, const Sched *S, uint32_t next, uint32_t made);

/* The go block that is ready at this link runs next. */
void reduce_choose(Reduce *r, const World *w, Link *link);

/* After a run of the search: makes e->path the prefix of its next one. Returns false if there is none. */
bool reduce_backtrack(Explore *e);

/* Frees all memory. */
void reduce_close(lua_State *L, Reduce *r);

#endif
