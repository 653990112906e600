/* lua/ps.h: the list of rn.ps, also for the errors of deadlocks and leaks. */
#ifndef RUNNEL_PS_H
#define RUNNEL_PS_H

#include "core/state.h"

/* Pushes the entry of ps for the go block at index `at`. */
void ps_push_entry(lua_State *L, Go *go, int at);

/* Pushes the list of ps: all go blocks that are not hidden, in the order of their ids. Or `for_report`, those of the
   running simulation, if there is one, with the data for errors of deadlocks and leaks. */
void ps_push_list(lua_State *L, bool for_report);

/* Pushes a table with the number of go blocks in each state, as ps names them. */
void ps_push_counts(lua_State *L);

#endif
