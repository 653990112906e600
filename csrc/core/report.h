/* report.h: texts for people: errors that nobody catches, the names of go blocks, and where they wait. */
#ifndef RUNNEL_REPORT_H
#define RUNNEL_REPORT_H

#include "core/state.h"

/* Tells on_error, or stderr without one, of an error. On top of L and popped: the error, its traceback or nil, and
   where it happened: the name of a go block, or a channel, or nil for the scheduler itself. Never raises. */
void report_error(lua_State *L);

/* The message handler: keeps the traceback of the error and passes the error on. */
int report_keep_traceback(lua_State *L);

/* Pushes the traceback that it has kept of the last error, and forgets it: where memory runs out none is kept, and
   that of an earlier error must not pass for that of a later one. */
void report_push_traceback(lua_State *L);

/* Calls the function and the `nargs` arguments on top of L, which are popped, protected and for no result. Nothing can
   wait meanwhile: messages say that it is `inside`. An error goes to on_error, as one of the channel at index `at`. */
void report_call(lua_State *L, int nargs, const char *inside, int at);

/* Pushes the traceback and the name of a go block that has raised and whose stack is still as it was; nil for what
   there is no memory for. Its userdata is at index `at`. One that was cancelled gets no traceback, which takes long to
   make: what its variables raise when they are closed is another error, and comes from elsewhere. */
void report_death(lua_State *L, int at, bool is_cancelled);

/* Pushes a go block's name: what it was renamed to, or where its function was defined (file:line). */
void report_go_name(lua_State *L, Go *go, int at);

/* Pushes where a go block that does not run is in its code (file:line), or nil when it has not started. */
void report_where(lua_State *L, const Go *go);

/* Pushes a list of all go blocks: what ps returns. */
void report_list(lua_State *L);

/* Raises the error on top of L with the position of the function at that level, as of luaL_where. */
int report_raise(lua_State *L, int level);

/* Pushes a text such as "take on chan: jobs" for an operation that waits outside any go block, or nil if memory runs
   out. Does not raise, since the operation must still be withdrawn. */
void report_push_waiting(lua_State *L, Alt *alt, const Operation *op);

/* Raises a deadlock: the operation that the text on top of L describes (if that is nil, `op`) would wait for ever.
   Lists the go blocks that are parked. */
int report_deadlock(lua_State *L, const Operation *op);

/* Sets up the functions that are called protected, so that reporting need not allocate them (SCHED_MSGH and others). */
void report_open(lua_State *L);

#endif
