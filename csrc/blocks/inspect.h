/* inspect.h: the list of go blocks, which ps returns, and the deadlock error, which lists those that are parked. */
#ifndef RUNNEL_CORE_INSPECT_H
#define RUNNEL_CORE_INSPECT_H

#include "core/state.h"

/* Pushes a list of all go blocks: what ps returns. */
void inspect_push_list(lua_State *L);

/* Pushes what inspect_raise_deadlock needs about an operation that waits outside any go block, whose name is `what`: a
   table with the fields operation, channel and channels, as in ps, and `loops` for a for loop; and a text such as "take
   on chan: jobs". Two nils if memory runs out. Does not raise, since the operation must still be withdrawn. */
void inspect_push_waiting(lua_State *L, Alt *alt, const char *what);

/* Raises a deadlock error: the operation that the two values on top of L describe (or `what`, if they are nil) would wait
   for ever. Says what SCHED_EXPLAIN makes of it, and lists the go blocks that are parked. */
int inspect_raise_deadlock(lua_State *L, const char *what);

/* Raises an error if a go block that the program has started is left in the running simulation. `rests`: nothing is ready
   and no timer is pending, so the go block waits for ever; else it goes on for ever. */
void inspect_check_leaks(lua_State *L, bool rests);

/* Sets up SCHED_DESCRIBE_WAITING. */
void inspect_set_up(lua_State *L);

#endif
