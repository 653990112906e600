/* inspect.h: what the host asks the core about what can still happen: require "runnel.host.inspect". */
#ifndef RUNNEL_HOST_INSPECT_H
#define RUNNEL_HOST_INSPECT_H

#include <lua.h>

/* The module's loader. */
int inspect_open(lua_State *L);

#endif
