/* inspect.h: tells the host which events are still possible: require "runnel.host.inspect". */
#ifndef RUNNEL_HOST_INSPECT_H
#define RUNNEL_HOST_INSPECT_H

#include <lua.h>

/* The module's loader. */
int inspect_open(lua_State *L);

#endif
