/* driver.h: how the scheduler waits when nothing is ready.

   A driver is an object of the user's. wait(self, ms or nil) returns after at most that long, or sooner if its own
   events have run their callbacks. alive(self): whether events may still come. The built-in driver sleeps.

   News of other threads (core/others.h) signals the scheduler's wakeup. That ends the wait of the built-in driver, and
   of one that waits by driver_wait_readable. Other drivers get short waits while there may be such news. */
#ifndef RUNNEL_DRIVER_H
#define RUNNEL_DRIVER_H

#include "core/others.h"

/* PortHook.alive; false without a hook. */
static inline bool driver_has_ports(const Sched *S) { return UNLIKELY(S->port_hook) && S->port_hook->alive(S); }

/* Does what C modules have asked for. To be called before the scheduler waits or returns. */
static inline void driver_run_tasks(Sched *S) {
  if (UNLIKELY(S->tasks)) S->run_tasks(S);
}

/* Whether another thread has news at which the scheduler has not yet looked. */
bool driver_has_news(const Sched *S);

/* Waits for at most `ns`, or without limit if that is negative; 0 only polls. May raise what the driver raises. */
void driver_wait(lua_State *L, Sched *S, int64_t ns);

/* For drivers written in Lua over a loop that has a descriptor: waits until `fd` or `other` is readable (negative:
   there is none), there is news of other threads, the next deadline is due, or `ns` have passed, unless that is
   negative. Returns false at once if a go block is ready or a deadline is due. Raises what a debug hook raises. */
bool driver_wait_readable(lua_State *L, Sched *S, int fd, int other, int64_t ns);

/* Whether the driver itself has events that may come. May raise what the driver raises. */
bool driver_has_events(lua_State *L);

/* Whether the driver has events that may come, or another thread may have news: through a port, or on a shared channel
   that another state has. May raise what the driver raises. */
bool driver_alive(lua_State *L);

/* Runs the debug hook of the main thread, if it has one. The lua executable delivers Ctrl-C by such a hook, and Lua
   does not call it while the loop, which is C code, runs. Raises what the hook raises. */
void driver_check_hook(lua_State *L);

/* The function that driver_check_hook calls: a hook that is called for it may raise. */
int driver_nothing(lua_State *L);

#endif
