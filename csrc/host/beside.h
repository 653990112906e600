/* beside.h: the C modules of runnel that are not in the executable but were built or installed with it, such as
   runnel.monitor.core: `require` finds them without LUA_CPATH, also in threads, which inherit package.cpath. */
#ifndef RUNNEL_HOST_BESIDE_H
#define RUNNEL_HOST_BESIDE_H

#include <lua.h>

/* Adds their places to the end of package.cpath. May raise. */
void beside_add_places(lua_State *L);

#endif
