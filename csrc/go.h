/* go.h: the life of a go block: how it is made, resumed, cancelled, and ended. */
#ifndef RUNNEL_GO_H
#define RUNNEL_GO_H

#include "sched.h"

/* Makes a go block of the function and `nargs` arguments on top of L and puts it at the end of the run queue. Replaces
   them by its userdata, the result channel. */
Go *go_spawn(lua_State *L, Sched *S, int nargs);

/* The same of a function that feeds something: if it dies, by an error, a cancel or in whatever way, the function below it on
   the stack is called: give_up(fed, reason, its result channel, whether on_error hears of it). On top of L: give_up, fed, the function and its arguments;
   they, too, are replaced. What is called must not wait. */
Go *go_spawn_feeding(lua_State *L, Sched *S, int nargs);

/* Makes a coroutine, not started, that can wait like a go block: for a pending take_async or put_async. Its stack is the
   `n` values on top of L, which are replaced by its userdata. To be claimed before it is queued or woken: a pass may have
   let go of it meanwhile. */
Go *go_spawn_waiting(lua_State *L, Sched *S, int n);

/* Empties the stack of a go block that has ended: only such a coroutine is dead to coroutine.status and the like. */
void go_empty(Sched *S, Go *go, lua_State *co);

/* Ends a go block, whose userdata is on top of L, because somebody else closes its coroutine. */
void go_bury(lua_State *L, Sched *S, Go *go);

/* Cancels the go block whose userdata is at index `at`, with the error at index `reason`. What it waits for is withdrawn,
   and it resumes with the error; one that does not wait, or whose operation has completed, gets the error when it waits
   next, so that nothing is lost. A pending callback is dropped. Returns false when there is nothing left to cancel. May
   raise, and then nothing has happened. */
bool go_cancel(lua_State *L, Sched *S, Go *go, int at, int reason);

/* Whether the error at index `err` is what the go block whose userdata is at index `at` was cancelled with. Then on_error
   does not hear of it. */
bool go_is_cancellation(lua_State *L, int at, int err);

/* Ends a go block whose coroutine lua_resume has left with that status and `n` results, other than by waiting. */
void go_left(lua_State *L, Sched *S, Go *go, int status, int n);

/* Resumes a go block that was ready, and ends it where its function has returned or raised. Inline, since a yield is a
   longjmp: the processor, which has not seen the calls below it return, mispredicts each return from here on, and one
   function less is 5 to 10 ns less. */
static inline void go_resume(lua_State *L, Sched *S, Alt *alt) {
  Go *go = sched_go(alt);
  int n;
  S->current = go;
  alt->state = ALT_IDLE;
  int status = lua_resume(alt->co, L, alt->nresults, &n);
  if (UNLIKELY(status != LUA_YIELD || alt->state == ALT_IDLE)) go_left(L, S, go, status, n);
  S->current = NULL;
}

/* Sets up what ends a go block whose coroutine somebody closes; the scheduler's userdata is at SCHED_SELF. */
void go_open(lua_State *L);

#endif
