/* inspect.h: what an operation waits for, and the error of a deadlock. Functions of the table SCHED_REPORTS, in Lua
   (lua/runnel/internal/errors/reports.lua), write the texts of errors that list waiting go blocks. */
#ifndef RUNNEL_INSPECT_H
#define RUNNEL_INSPECT_H

#include "core/state.h"

/* Sets fields of the table on top of L that tell what a parked alt waits for: `operation`, which is "take", "put" or
   "alts", and `channel`, or `channels` of an alts; only an operation "idle" if its channels are hidden. */
void inspect_set_operation(lua_State *L, const Alt *alt);

/* Pushes a list of the channels on which an alt waits, without hidden ones, and returns their number. */
lua_Integer inspect_push_channels(lua_State *L, const Alt *alt);

/* The first waiter of a parked alt that waits since a buffer has been used up: a take, since the last value was taken; or
   a put, since the buffer was filled. Chan.last of its channel is who has done that. NULL if there is none. */
const Waiter *inspect_used_up(const Alt *alt);

/* Sets the field `holder` of the table on top of L: who has used up what that waiter of `alt` waits for. `go` is the go
   block with the id Chan.last, at index `at`, or NULL if it is not there any more. Does nothing if that one waits there
   itself, as workers do that share a channel; unless nothing was ever given back, and so it waits for itself. */
void inspect_set_holder(lua_State *L, const Alt *alt, const Waiter *w, Go *go, int at);

/* Pushes what inspect_raise_deadlock needs about an operation that waits outside any go block, whose name is `what`: a
   table with the fields operation, channel and channels, as in ps, and `loops` for a for loop. Nil if memory runs out.
   Does not raise, since the operation must still be withdrawn. */
void inspect_push_waiting(lua_State *L, Alt *alt, const char *what);

/* Raises a deadlock error: the operation `what`, described by the value on top of L, or nil, would wait forever. */
int inspect_raise_deadlock(lua_State *L, const char *what);

/* Calls the function `name` of SCHED_REPORTS with the `n` values on top of L, which are replaced by its text. Returns
   false, and pops them, if there is no such function, no text, or no memory. */
bool inspect_write_report(lua_State *L, const char *name, int n);

#endif
