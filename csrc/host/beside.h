/* beside.h: the C modules of runnel that are not in the executable but were built or installed with it, such as
   runnel.monitor.core: `require` finds them although package.cpath does not name their place. */
#ifndef RUNNEL_HOST_BESIDE_H
#define RUNNEL_HOST_BESIDE_H

#include <lua.h>

/* Adds a searcher for them to package.searchers, behind all others. May raise. */
void beside_add_searcher(lua_State *L);

#endif
