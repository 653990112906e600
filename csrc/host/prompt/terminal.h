/* terminal.h: the terminal for the prompt's Lua modules: require "runnel.host.terminal". */
#ifndef RUNNEL_HOST_TERMINAL_H
#define RUNNEL_HOST_TERMINAL_H

#include <lua.h>

/* The module's loader. */
int terminal_open(lua_State *L);

#endif
