/* allocator.h: how a state allocates the small objects that go blocks, channels, closures and tables consist of. */
#ifndef RUNNEL_LUA_ALLOCATOR_H
#define RUNNEL_LUA_ALLOCATOR_H

#include <lua.h>

/* Makes the state allocate small objects in spans (lua/state/spans.h), which makes a go block's life a quarter cheaper.
   Only if its allocator is luaL_newstate's: a program that has set its own keeps it. Does nothing if the system has no
   addresses left, or if the environment has RUNNEL_MALLOC. */
void allocator_install(lua_State *L);

#endif
