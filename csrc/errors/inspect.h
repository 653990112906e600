/* inspect.h: what an operation waits for, and the error of a deadlock. Functions of the table SCHED_REPORTS, in Lua
   (lua/runnel/internal/errors/reports.lua), write the texts of errors that list waiting go blocks. */
#ifndef RUNNEL_INSPECT_H
#define RUNNEL_INSPECT_H

#include "core/state.h"

/* Sets fields of the table on top of L, for a parked alt: `operation`, which is "take", "put" or "alts"; and `channel`,
   or the list `channels` for "alts". If all its channels are hidden, sets only the operation, "idle". */
void inspect_set_operation(lua_State *L, const Alt *alt);

/* Pushes a list of the channels on which an alt waits, without hidden ones, and returns their number. */
lua_Integer inspect_push_channels(lua_State *L, const Alt *alt);

/* The first waiter of a parked alt that waits at a buffer which somebody has used up: a take, because the buffer was
   emptied; or a put, because it was filled. Chan.last of its channel has the id of who did the last of that. NULL if
   there is no such waiter. */
const Waiter *inspect_used_up(const Alt *alt);

/* Sets the field `holder` of the table on top of L, for the waiter `w` of `alt` that inspect_used_up has found: who used
   up the buffer. A buffer of which values are taken and put back is a lock, or a pool of tokens; so this names who has
   the lock. `go` is the go block with the id Chan.last, at index `at`; NULL if it has ended. Sets nothing if `go` itself
   waits on this channel, as workers do that share a channel. Exception: if nothing was ever given back there, `go` waits
   for what it has taken itself, and is named. */
void inspect_set_holder(lua_State *L, const Alt *alt, const Waiter *w, Go *go, int at);

/* Pushes a table about the operation `what` that waits outside any go block, for inspect_raise_deadlock: operation,
   channel and channels as in ps, and `loops` if it is the take of a for loop. Pushes nil if memory runs out. Does not
   raise, since the caller has yet to withdraw the operation. */
void inspect_push_waiting(lua_State *L, Alt *alt, const char *what);

/* Raises the error that the operation `what` would wait forever. On top of L is what inspect_push_waiting has pushed. */
int inspect_raise_deadlock(lua_State *L, const char *what);

/* Calls the function `name` of SCHED_REPORTS with the `n` values on top of L, which are replaced by its text. Returns
   false, and pops them, if there is no such function, no text, or no memory. */
bool inspect_write_report(lua_State *L, const char *name, int n);

#endif
