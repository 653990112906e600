/* call.h: calls Lua code whose errors the user sees, and which Ctrl-C interrupts. */
#ifndef RUNNEL_HOST_CALL_H
#define RUNNEL_HOST_CALL_H

#include <lua.h>

/* The registry key of a function that turns an error that is a table into text; nil if there is none. */
#define CALL_DESCRIBE_KEY "runnel.host.describe"

/* Calls the function below `nargs` arguments on top of L; Ctrl-C interrupts it. If it raises, the message with the
   traceback takes the place of its results. Returns the status of lua_pcall. */
int call_run(lua_State *L, int nargs, int nresults);

/* Writes a message, as in "runnel: cannot open nope.lua". */
void call_complain(const char *program, const char *message);

#endif
