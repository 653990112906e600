/* core.h: the core inside the executable: how the host finds the scheduler, and what it adds for its own Lua modules. */
#ifndef RUNNEL_HOST_CORE_H
#define RUNNEL_HOST_CORE_H

#include <lua.h>
#include <stdbool.h>

#include "core/state.h"

/* Puts all that is inside the executable into package.preload: the core, the Lua modules, and a loader of luv that makes
   it the driver. Nothing is loaded before it is asked for. For a prompt, the core can be inspected (inspect.h). May raise. */
void core_preload(lua_State *L, bool for_prompt);

/* Lets the core, once it is loaded, draw its random numbers from the seed. */
void core_seed(lua_State *L, long long seed);

/* Pushes the scheduler's userdata; the core must be loaded. */
void core_push_sched(lua_State *L);

/* Pushes a C function that has, as those of the core, the scheduler at SCHED_SELF; the core must be loaded. */
void core_push_function(lua_State *L, lua_CFunction f);

/* The scheduler, or NULL as long as nobody has required the core. Safe in a signal handler. */
Sched *core_sched(void);

/* Errors of go blocks that nobody took will not change the exit status. Before the core is loaded. */
void core_let_errors_pass(void);

/* Reports the errors of go blocks that nobody has taken; within a simulation, those of the outer world as well. */
void core_report_unhandled(lua_State *L);

#endif
