/* inspect.h: what the prompt's commands ask the core: require "runnel.host.inspect".

   The core has no list of its channels and does not trace values. So if there will be a prompt, the functions that make
   channels and put on them are replaced with ones that also record channels and report values, before any module has
   stored the originals in locals. Without a prompt nothing is replaced, so that this costs nothing. */
#ifndef RUNNEL_HOST_INSPECT_H
#define RUNNEL_HOST_INSPECT_H

#include <lua.h>

/* Replaces functions of the core, the module on top of L. */
void inspect_replace(lua_State *L);

/* The module's loader. */
int inspect_open(lua_State *L);

#endif
