/* leaks.h: counts go blocks that the collector has taken while they waited, by where they were started and where they
   waited.

   Nothing tells when a go block is collected. So each one that becomes a weak root (root.h) is counted at its site, and
   taken off again when it becomes a strong one; those of a site that are counted but are no weak root any more were
   collected. Only go blocks that wait for long become weak: the others pay nothing. */
#ifndef RUNNEL_LEAKS_H
#define RUNNEL_LEAKS_H

#include "core/state.h"

/* Pushes a list of the sites where go blocks were collected: tables with `count`, `started`, `where` and `operation`,
   which are texts ("app.lua:3", "app.lua:5", "take"), and `example`, the first wait there. May raise. */
void leaks_push(lua_State *L, Sched *S);

/* How many go blocks were collected. -1 if so many wait that to count would stall the program. Allocates nothing. */
int64_t leaks_count(lua_State *L, const Sched *S);

/* Sets up the counting; the scheduler's userdata is at SCHED_SELF. */
void leaks_open(lua_State *L);

#endif
