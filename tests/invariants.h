/* invariants.h: what must hold of the whole scheduler whenever no operation is under way. The core's debug build
   asserts the invariants of one channel after each operation on it (chan_check); here is what ties them all
   together. */
#ifndef RUNNEL_TESTS_INVARIANTS_H
#define RUNNEL_TESTS_INVARIANTS_H

#include <lua.h>

#include "blocks/sched.h"

/* Pushes the scheduler of a state in which runnel.core has been loaded, or nil, and returns it, or NULL. */
Sched *invariants_sched(lua_State *L);

/* Checks the whole scheduler of a state in which runnel.core has been loaded. Returns NULL, or what is broken.
   Allocates hardly anything. To be called outside any go block. */
const char *invariants_broken(lua_State *L);

/* The same for Lua: raises an error that says what is broken. */
int invariants_check(lua_State *L);

#endif
