/* traceback.h: the traceback of a coroutine that has died, written without allocating.

   luaL_traceback allocates while it reads the stack of the coroutine. An allocation may run finalizers, and a finalizer
   may close the coroutine, which frees the stack frames that are being read. To stop the collector meanwhile is no way
   out: starting it again begins a collection of the whole heap. */
#ifndef RUNNEL_TRACEBACK_H
#define RUNNEL_TRACEBACK_H

#include <lua.h>

/* The number of levels of a coroutine's stack: lua_getstack finds 0 to one less. A binary search, since lua_getstack
   takes time in proportion to the level, and an endless recursion has very many levels. */
int traceback_count_levels(lua_State *co);

/* Free slots of the stack that traceback_push needs; it raises if there is no memory for them. */
enum { TRACEBACK_SLOTS = 21 + LUA_MINSTACK };

/* Pushes onto L the traceback of the coroutine `co`, which is L or not running, from a level on, in the form of
   luaL_traceback; each line and the whole are cut to a fixed length. At index `names` of L is a weak table for this
   purpose, which keeps names of functions until the next cycle of the collector: a later error then costs a tenth. May
   raise, for lack of memory. */
void traceback_push(lua_State *L, lua_State *co, int first, int names);

#endif
