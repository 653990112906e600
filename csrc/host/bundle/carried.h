/* carried.h: the modules and files of a program that `runnel build` has made, for its Lua states. */
#ifndef RUNNEL_HOST_CARRIED_H
#define RUNNEL_HOST_CARRIED_H

#include <lua.h>

#include "host/bundle/bundle.h"

/* Puts the bundle's modules into package.preload, which threads inherit, and makes package.path and package.cpath
   empty: modules that are not inside are not found. C modules are loaded from memory. May raise. */
void carried_preload(lua_State *L, Bundle *b);

/* Pushes the bundle's script as a function. Returns the status of lua_load. */
int carried_load_script(lua_State *L, const Bundle *b);

#endif
