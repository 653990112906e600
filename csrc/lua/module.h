/* lua/module.h: the module runnel.core, which the files of csrc/lua add their functions to. These functions convert
   arguments for the core, and its results for Lua. */
#ifndef RUNNEL_LUA_MODULE_H
#define RUNNEL_LUA_MODULE_H

#include <lauxlib.h>
#include <lua.h>

#include "core/state.h"

/* Adds functions to the module on top of L, each with the scheduler, which is at SCHED_SELF, as its upvalue. */
void module_register(lua_State *L, const luaL_Reg *functions);

/* Functions of core.internal that are defined beside the public ones:
   alts_index(ops, opts): alts that returns the number of the operation instead of its port. */
int module_alts_index(lua_State *L);

/* sleep_at_end(ms): a sleep, also in a go block that was cancelled and has got the error. */
int module_sleep_at_end(lua_State *L);

/* alts_index(ops, opts) for the library's own go blocks: see lua/internal/moving.c. */
int module_moving_alts(lua_State *L);

/* simulate(seed, shuffle, leaks, f, ...) -> true, elapsed ms, f's results | false, elapsed ms, error */
int module_simulate(lua_State *L);

/* Registry key of the module: if it is required again under another name, the scheduler is the same. */
#define MODULE_KEY "runnel.core"

/* Pushes the scheduler's userdata and returns true; or pushes nothing, if the core is not open in the state. */
bool module_push_sched(lua_State *L);

/* Whether no other copy of the core, from another library, is open in the state. */
bool module_is_ours(lua_State *L);

/* Each adds its part to the module on top of L; lua_internal_open adds the table `internal`. */
void lua_chan_open(lua_State *L);
void lua_buffer_open(lua_State *L);
void lua_alts_open(lua_State *L);
void lua_go_open(lua_State *L);
void lua_run_open(lua_State *L);
void lua_delayed_open(lua_State *L);
void lua_lines_open(lua_State *L);
void lua_internal_open(lua_State *L);

/* Each adds its part to that table, which is on top of L. A thread opens the core in its state by `open_core`. */
void lua_internal_lines_open(lua_State *L);
void lua_internal_go_open(lua_State *L);
void lua_moving_open(lua_State *L);
void lua_gathering_open(lua_State *L);
void lua_job_open(lua_State *L);
void lua_worker_open(lua_State *L);
void lua_packing_open(lua_State *L);
void lua_pool_open(lua_State *L);
void lua_watch_open(lua_State *L);
void lua_trace_open(lua_State *L);
void lua_profile_open(lua_State *L);
void lua_sigterm_open(lua_State *L);
void lua_ending_open(lua_State *L);
void lua_resolver_open(lua_State *L);
void lua_spawn_open(lua_State *L);
void lua_polled_open(lua_State *L);
void lua_file_read_open(lua_State *L);
void lua_explore_open(lua_State *L);
void lua_hosts_open(lua_State *L);
void lua_thread_open(lua_State *L, lua_CFunction open_core);

/* Lua's functions that block the thread tell of it from now on. */
void lua_blocking_open(lua_State *L);

/* The end of the state tells what the program has forgotten to run. */
void lua_forgotten_open(lua_State *L);

#endif
