/* linked.h: C modules that are linked into the executable: with `make static` all that can be, otherwise none. */
#ifndef RUNNEL_HOST_LINKED_H
#define RUNNEL_HOST_LINKED_H

#include <lua.h>

/* Puts them into package.preload. May raise. */
void linked_preload(lua_State *L);

#endif
