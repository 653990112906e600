/* script.h: runs the chunks, modules and scripts of the command line, and then the go blocks that remain. */
#ifndef RUNNEL_HOST_SCRIPT_H
#define RUNNEL_HOST_SCRIPT_H

#include <lua.h>
#include <stdbool.h>

#include "host/bundle/bundle.h"
#include "host/options.h"

/* --trace and --monitor: starts to record, and to serve the page. Each of these functions reports a failure and returns
   false. */
bool script_watch(lua_State *L, const Options *o);

/* Runs LUA_INIT, unless the environment is ignored. */
bool script_init(lua_State *L, const Options *o);

/* Runs the options -e, -l and -W in their order. */
bool script_options(lua_State *L, const Options *o, char **argv);

/* Runs the script, or standard input; its arguments are the global `arg`. */
bool script_run(lua_State *L, const Options *o, const char *path);

/* Runs the script of a program that was built; its arguments are the global `arg`. */
bool script_run_bundle(lua_State *L, const Options *o, const Bundle *b);

/* Runs go blocks until none is ready, no timer is pending and no event can arrive. Then reports the parked go blocks
   and the unhandled errors. Returns whether the script succeeded. */
bool script_drain(lua_State *L, const Options *o);

#endif
