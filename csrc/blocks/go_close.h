/* go_close.h: how the coroutine of a go block is closed: by the scheduler when the go block dies, or by other code.

   A dead go block still has its to-be-closed variables. Lua closes those of a coroutine that has ended with an error
   only outside of it, in lua_closethread, where nothing can yield. So the scheduler closes the coroutine with a call
   hook, which sees each call of a `__close`, moves the variable to a new coroutine, the closer, and cancels the call.
   The closer marks the variables as to be closed, in their old order, and raises the error again. There Lua closes them
   like those of any function: they can park (from Lua 5.4.3 on), and an error in a `__close` replaces the first one. A
   go block that returns pays nothing for this. (To call each go block's function with lua_pcallk would be plainer, and
   was slower: docs/rejected.md.)

   Other code may close the coroutine of a waiting go block with coroutine.close. At the bottom of its stack is a
   to-be-closed value, the guard: its `__close` ends the go block (go.c). */
#ifndef RUNNEL_GO_CLOSE_H
#define RUNNEL_GO_CLOSE_H

#include "core/state.h"

/* Pushes the guard onto `co`, a new coroutine, and marks it as to be closed. May raise. */
static inline void go_close_guard(lua_State *L, lua_State *co) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_GUARD);
  lua_xmove(L, co, 1);
  lua_toclose(co, 1);
}

/* Closes the coroutine of a go block that has ended well: only the guard is left, whose `__close` then does nothing.
   Does not raise, whatever debug hook the go block has set. */
void go_close_finish(Sched *S, Go *go, lua_State *co);

/* Closes the coroutine of a go block that has died. On top of L are its error, its traceback and its name. If it has
   variables to close, moves these three to the closer, which becomes the go block's coroutine, makes the go block
   current, and returns how many values to resume the closer with. Otherwise returns 0, and the error may have been
   replaced. Does not raise. */
int go_close_start(lua_State *L, Sched *S, Go *go);

/* Whether the go block with the coroutine L runs the `__close` of a variable: at the end of a block; or called by pcall
   or xpcall, after an error, above what the failed function has left on their stack. It does not see a `__close` that
   another C function calls after an error. May raise. */
bool go_close_is_running(lua_State *L);

/* Sets up the guard and the closer's functions; the scheduler's userdata is at SCHED_SELF. */
void go_close_open(lua_State *L);

#endif
