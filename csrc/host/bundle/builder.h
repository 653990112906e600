/* builder.h: the C functions that `runnel build` needs (lua/runnel/host/build.lua): require "runnel.host.builder". */
#ifndef RUNNEL_HOST_BUILDER_H
#define RUNNEL_HOST_BUILDER_H

#include <lua.h>

/* The module's loader. */
int builder_open(lua_State *L);

#endif
