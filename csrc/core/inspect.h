/* inspect.h: the list of go blocks, which ps returns, and the deadlock error, which lists those that are parked. */
#ifndef RUNNEL_CORE_INSPECT_H
#define RUNNEL_CORE_INSPECT_H

#include "core/state.h"

/* Pushes a list of all go blocks, or (unless NULL) of those that are listed: what ps returns. */
void inspect_push_list(lua_State *L, bool (*is_listed)(lua_State *L, const Go *go));

/* Pushes a text such as "take on chan: jobs" for an operation that waits outside any go block, or nil if memory runs
   out; `what` is the name of the operation. Does not raise, since the operation must still be withdrawn. */
void inspect_push_waiting(lua_State *L, Alt *alt, const char *what);

/* Raises a deadlock error: the operation that the text on top of L describes (or `what`, if that is nil) would wait
   for ever. Lists the go blocks that are parked. */
int inspect_raise_deadlock(lua_State *L, const char *what);

/* Raises an error if a go block of the running simulation is left that the program has started; `rests`: it waits on
   channels, since nothing is ready or timed. */
void inspect_check_leaks(lua_State *L, bool rests);

/* Sets up SCHED_DESCRIBE_WAITING. */
void inspect_set_up(lua_State *L);

#endif
