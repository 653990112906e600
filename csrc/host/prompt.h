/* prompt.h: the live prompt. What it does with a line is told in lua/runnel/host/prompt.lua. */
#ifndef RUNNEL_HOST_PROMPT_H
#define RUNNEL_HOST_PROMPT_H

#include <lua.h>
#include <stdbool.h>

#include "host/options.h"

/* Runs the prompt until its input ends: whether all went well. */
bool prompt_run(lua_State *L, const Options *o);

#endif
