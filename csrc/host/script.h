/* script.h: running what the command line names: chunks, modules, scripts; and what they leave behind. */
#ifndef RUNNEL_HOST_SCRIPT_H
#define RUNNEL_HOST_SCRIPT_H

#include <lua.h>
#include <stdbool.h>

#include "host/options.h"

/* Where the registry has a function that turns an error, which is a table, into text; or nil. */
#define SCRIPT_DESCRIBE_KEY "runnel.host.describe"

/* Calls the function under `nargs` arguments on top of L, which Ctrl-C may interrupt. Where it raises, the message with
   its traceback is left in place of its results. */
int script_call(lua_State *L, int nargs, int nresults);

/* Writes a message, as in "runnel: cannot open nope.lua". */
void script_complain(const char *program, const char *message);

/* Runs LUA_INIT, unless the environment is ignored. Each of these four returns false when something failed, of which
   people have been told. */
bool script_init(lua_State *L, const Options *o);

/* Runs the options -e, -l and -W in their order. */
bool script_options(lua_State *L, const Options *o, char **argv);

/* Runs the script, or standard input; its arguments are the global `arg`. */
bool script_run(lua_State *L, const Options *o, const char *path);

/* Runs go blocks until nothing is ready, timed or alive. Reports the go blocks that are parked then, and the errors
   that nobody took. Returns whether the script succeeded. */
bool script_drain(lua_State *L, const Options *o);

#endif
