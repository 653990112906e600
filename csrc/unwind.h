/* unwind.h: go blocks that die, before Lua 5.4.3. There, a coroutine that was ended by an error closes its variables without
   that error, so that a `<close>` which tells others of it tells nothing. Hence a go block's function is called protected in
   its own coroutine, where the error goes with the closing. It costs a call for each go block, and nothing with later Lua. */
#ifndef RUNNEL_UNWIND_H
#define RUNNEL_UNWIND_H

#include <lua.h>

/* Whether this is Lua 5.4.0 to 5.4.3, for all of which that number is the same. */
#define BEFORE_LUA_5_4_4 (LUA_VERSION_RELEASE_NUM < 50404)

/* Whether it is 5.4.0 to 5.4.2. Nothing for the preprocessor. */
#define BEFORE_LUA_5_4_3 (BEFORE_LUA_5_4_4 && LUA_VERSION_RELEASE[0] < '3')

#if BEFORE_LUA_5_4_4

/* Puts below the function and the `nargs` arguments on top of L the one that calls it. Returns how many arguments this has. */
int unwind_wrap(lua_State *L, int nargs);

/* Sets it up; the scheduler's userdata is at SCHED_SELF. */
void unwind_open(lua_State *L);

#else

static inline int unwind_wrap(lua_State *L, int nargs) {
  (void)L;
  return nargs;
}

static inline void unwind_open(lua_State *L) { (void)L; }

#endif
#endif
