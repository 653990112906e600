/* core.h: loads the core in the executable, and finds its scheduler. */
#ifndef RUNNEL_HOST_CORE_H
#define RUNNEL_HOST_CORE_H

#include <lua.h>
#include <stdbool.h>

#include "core/state.h"

/* Puts modules inside the executable into package.preload: the core, the Lua modules, and a loader of luv that makes it
   the driver. Each is loaded when it is first required. With `for_prompt` the core is inspected (inspect.h).
   May raise. */
void core_preload(lua_State *L, bool for_prompt);

/* Sets the seed of the core's random numbers. Must be called before the core is loaded. */
void core_seed(lua_State *L, long long seed);

/* Pushes the scheduler's userdata; the core must be loaded. */
void core_push_sched(lua_State *L);

/* Pushes a C function that has the scheduler at SCHED_SELF, like the core's own; the core must be loaded. */
void core_push_function(lua_State *L, lua_CFunction f);

/* The scheduler, or NULL until the core is loaded. Safe in a signal handler. */
Sched *core_sched(void);

/* Unhandled errors of go blocks will not change the exit status. Must be called before the core is loaded. */
void core_let_errors_pass(void);

/* Writes the trace and the profile, if they are being recorded. Does not raise. */
void core_end_trace(lua_State *L);

/* Reports unhandled errors of go blocks; within a simulation, also those of the outer world. */
void core_report_unhandled(lua_State *L);

/* At the end of the program: ends its threads, and reports the unhandled errors, including theirs. */
void core_finish(lua_State *L);

/* Whether no unhandled error was written to stderr, or the options allow that. */
bool core_is_well(void);

#endif
