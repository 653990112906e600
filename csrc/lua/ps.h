/* lua/ps.h: what rn.ps lists, and the errors of deadlocks and leaks. */
#ifndef RUNNEL_PS_H
#define RUNNEL_PS_H

#include "core/state.h"

/* Pushes what ps lists for the go block at index `at`. */
void ps_push_entry(lua_State *L, Go *go, int at);

/* Pushes a list of all go blocks that are not hidden, in the order of their ids: what ps returns. Or `for_report`, of
   those of the running simulation, if there is one, with what only the errors of deadlocks and leaks need. */
void ps_push_list(lua_State *L, bool for_report);

#endif
