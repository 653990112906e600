/* go_close.h: closing the coroutine of a go block: by the scheduler when the block dies, or by other code.

   When a go block dies, its to-be-closed variables are still open. Lua closes those of a coroutine that has ended with
   an error only outside of it, in lua_closethread, where nothing can yield. So the scheduler closes the coroutine with
   a call hook, which sees each call of a `__close`, moves the variable to a new coroutine, the closer, and cancels the
   call. The closer then marks the variables as to be closed, in their old order, and raises the error again. There Lua
   closes them like those of any other function: they can park (from Lua 5.4.3 on), and an error in a `__close` replaces
   the first one. A go block that returns pays nothing for this. (Calling the function of each go block with lua_pcallk
   would be plainer, and was slower: docs/architecture.md, "What was tried and rejected".)

   Other code may close the coroutine of a go block that waits, with coroutine.close. Below everything else on its stack
   is a to-be-closed value, the guard: its `__close` ends the go block (go.c). */
#ifndef RUNNEL_GO_CLOSE_H
#define RUNNEL_GO_CLOSE_H

#include "core/state.h"

/* Pushes the guard onto `co`, a new coroutine, and marks it as to be closed. May raise. */
static inline void go_close_guard(lua_State *L, lua_State *co) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_GUARD);
  lua_xmove(L, co, 1);
  lua_toclose(co, 1);
}

/* Closes what is left on the stack of a go block's coroutine that has ended well: only the guard, which then does
   nothing. Does not raise, whatever debug hook the go block has set. */
void go_close_finish(Sched *S, Go *go, lua_State *co);

/* Closes the coroutine of a go block that has died. On top of L are its error, its traceback and its name. If it has
   variables to be closed, those three are moved to the closer, which becomes the go block's coroutine; returns with how
   many values to resume it. Otherwise returns 0, and the error may have been replaced. Does not raise. */
int go_close_start(lua_State *L, Sched *S, Go *go);

/* Whether the go block whose coroutine is L runs the `__close` of a variable: at the end of a block; or called by pcall
   or xpcall, after an error, above what the function that has raised it has left on their stack. Of the `__close` that
   another C function calls after an error it knows nothing. May raise. */
bool go_close_is_running(lua_State *L);

/* Sets up the guard and the closer's functions; the scheduler's userdata is at SCHED_SELF. */
void go_close_open(lua_State *L);

#endif
