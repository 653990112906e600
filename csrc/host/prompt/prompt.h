/* prompt.h: the live prompt. lua/runnel/host/live_prompt.lua handles the lines. */
#ifndef RUNNEL_HOST_PROMPT_H
#define RUNNEL_HOST_PROMPT_H

#include <lua.h>
#include <stdbool.h>

/* Runs the prompt until its input ends; its messages begin with `program`. Returns whether it did not fail itself. */
bool prompt_run(lua_State *L, const char *program);

#endif
