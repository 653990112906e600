/* inspect.h: what the prompt's commands ask the core: require "runnel.host.inspect".

   The core keeps no list of its channels, and tells nobody of the values that pass them. So where there will be a prompt,
   the functions that make channels and put on them are replaced, before anybody has taken note of them, by ones that also
   do that. Elsewhere nothing is changed, and nothing costs. */
#ifndef RUNNEL_HOST_INSPECT_H
#define RUNNEL_HOST_INSPECT_H

#include <lua.h>

/* Replaces functions of the core, the module on top of L. */
void inspect_replace(lua_State *L);

/* The module's loader. */
int inspect_open(lua_State *L);

#endif
