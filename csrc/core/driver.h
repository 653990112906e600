/* driver.h: how the scheduler waits when nothing is ready.

   A driver is an object of the user's with wait(self, ms or nil), which returns after at most that long, or sooner
   when its own events have run their callbacks, and alive(self), whether it has events at all. The built-in one
   sleeps and has none. In virtual time nobody waits.

   Messages of other threads (port.h) end the wait of the built-in driver, and of one that waits by
   driver_wait_readable, by the scheduler's bell. Others are given short waits as long as there are ports. */
#ifndef RUNNEL_DRIVER_H
#define RUNNEL_DRIVER_H

#include "core/state.h"

/* Waits until the deadline `ns` from now, or for ever when negative; 0 only looks. May raise what the driver raises. */
void driver_wait(lua_State *L, Sched *S, int64_t ns);

/* For drivers written in Lua over a loop that has a descriptor: waits until `fd` is readable or the bell rings,
   until the next deadline, or until `ns` from now unless negative. Returns false at once when there is something
   to run already. Raises what a hook raises. */
bool driver_wait_readable(lua_State *L, Sched *S, int fd, int64_t ns);

/* Whether the driver has events that may come, or a port is open. */
bool driver_alive(lua_State *L);

/* Lets a debug hook of the main thread run, which is how the lua executable delivers Ctrl-C: code in the loop is C
   and would never see it. Raises what the hook raises. */
void driver_check_hook(lua_State *L);

/* The function that driver_check_hook calls, by which a hook knows that it may raise. */
int driver_nothing(lua_State *L);

#endif
