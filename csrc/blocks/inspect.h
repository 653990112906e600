/* inspect.h: the list of go blocks, which ps returns; and the errors of deadlocks and leaks, which list those that wait.
   Their texts are written in Lua (internal/reports.lua), by functions of the table SCHED_REPORTS. */
#ifndef RUNNEL_CORE_INSPECT_H
#define RUNNEL_CORE_INSPECT_H

#include "core/state.h"

/* Pushes what ps lists for the go block at index `at`. */
void inspect_push_entry(lua_State *L, Go *go, int at);

/* Pushes a list of all go blocks: what ps returns. */
void inspect_push_list(lua_State *L);

/* Pushes a list of the channels on which an alt waits, without those that are hidden, and returns how many. */
lua_Integer inspect_push_channels(lua_State *L, const Alt *alt);

/* Pushes what inspect_raise_deadlock needs about an operation that waits outside any go block, whose name is `what`: a
   table with the fields operation, channel and channels, as in ps, and `loops` for a for loop. Nil if memory runs out. Does
   not raise, since the operation must still be withdrawn. */
void inspect_push_waiting(lua_State *L, Alt *alt, const char *what);

/* Raises a deadlock error: the operation `what`, which the value on top of L describes, or nil, would wait for ever. */
int inspect_raise_deadlock(lua_State *L, const char *what);

/* Raises an error if a go block that the program has started is left in the running simulation. `rests`: nothing is ready
   and no timer is pending, so the go block waits for ever; else it goes on for ever. */
void inspect_check_leaks(lua_State *L, bool rests);

#endif
