/* prompt.h: the live prompt. lua/runnel/host/prompt.lua handles the lines. */
#ifndef RUNNEL_HOST_PROMPT_H
#define RUNNEL_HOST_PROMPT_H

#include <lua.h>
#include <stdbool.h>

#include "host/options.h"

/* Runs the prompt until its input ends. Returns whether the prompt itself did not fail. */
bool prompt_run(lua_State *L, const Options *o);

#endif
