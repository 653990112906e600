/* driver.h: how the scheduler waits when nothing is ready.

   A driver is an object of the program. wait(self, ms or nil) returns after at most that long, or earlier when its
   events have run their callbacks. alive(self) tells whether events may still arrive. The built-in driver sleeps.

   Other threads signal the scheduler's wakeup when they have news (core/others.h). That ends a wait of the built-in
   driver, and of a driver that waits by driver_wait_readable. Other drivers get short waits while there may be news. */
#ifndef RUNNEL_DRIVER_H
#define RUNNEL_DRIVER_H

#include "core/others.h"

/* Whether a port is open; see PortHook.alive. */
static inline bool driver_has_ports(const Sched *S) { return UNLIKELY(S->port_hook) && S->port_hook->alive(S); }

/* Does the tasks of C modules, before the scheduler waits or returns. */
static inline void driver_run_tasks(Sched *S) {
  if (UNLIKELY(S->tasks)) S->run_tasks(S);
}

/* Whether another thread has news that the scheduler has not handled yet. */
bool driver_has_news(const Sched *S);

/* Waits for at most `ns`; without limit if negative; 0 only polls. May raise what the driver raises. */
void driver_wait(lua_State *L, Sched *S, int64_t ns);

/* For drivers in Lua over an event loop with a descriptor: waits until `fd` or `other` (unless negative) is readable,
   another thread has news, the next deadline is due, or `ns` have passed, unless negative. Returns false if only another
   thread has news; and at once if a go block is ready or a deadline is due. Raises what a debug hook raises. */
bool driver_wait_readable(lua_State *L, Sched *S, int fd, int other, int64_t ns);

/* Whether the driver's own events may arrive. May raise what the driver raises. */
bool driver_has_events(lua_State *L);

/* Whether an event of the driver, or news of another thread, may arrive: through a port, or on a shared channel that
   another state holds. May raise what the driver raises. */
bool driver_alive(lua_State *L);

/* Runs the debug hook of the main thread, if it has one, and raises what the hook raises. The lua executable delivers
   Ctrl-C by such a hook, and Lua does not call it while the loop, which is C code, runs. A hook that stays, as that of a
   debugger does, ends no wait. */
void driver_check_hook(lua_State *L, Sched *S);

/* driver_check_hook calls this function to run the hook: while it runs, a hook may raise. */
int driver_nothing(lua_State *L);

#endif
