/* go.h: the life of a go block: how it is made, resumed, cancelled, and ended. */
#ifndef RUNNEL_GO_H
#define RUNNEL_GO_H

#include "core/observe.h"

/* Makes a go block of the function and `nargs` arguments on top of L and puts it at the end of the run queue. Replaces
   them by its userdata, the result channel. */
Go *go_spawn(lua_State *L, Sched *S, int nargs);

/* The same for a go block that feeds a channel. On top of L: give_up, fed, the function and its arguments, all of which
   are replaced. If the go block dies, by an error, a cancel or in any other way, give_up(fed, reason, its result
   channel, whether the error is reported, traceback or nil) is called. give_up must not wait. If it raises, or memory
   runs out, go_close_fed closes what is fed. */
Go *go_spawn_feeding(lua_State *L, Sched *S, int nargs);

/* Closes what a go block feeds, at index `fed`: a channel, or the channels of a list; anything else is left alone. The
   reason is at the index `reason`, which may hold nil. Does not raise. Needs no memory for a channel whose values are
   its own; for any other, the reason becomes "out of memory" if there is too little. */
void go_close_fed(lua_State *L, int fed, int reason);

/* Makes a coroutine, not started, that can wait like a go block: for a pending take_async or put_async. Its stack is
   the `n` values on top of L, which are replaced by its userdata. Commit its alt before it is enqueued or woken: a
   sweep may have made it a weak root meanwhile. */
Go *go_spawn_waiting(lua_State *L, Sched *S, int n);

/* Called in the coroutine L of a go block that somebody other than the scheduler has resumed: the go block does not
   complete its operation, but dies when the loop comes to it. Does not return: L yields whenever it is resumed, until
   it is closed. */
int go_kill(lua_State *L, Go *go);

/* Cancels the go block whose userdata is at index `at`, with the error at index `reason`. If it waits, its operation is
   withdrawn, and it resumes by raising the error. If it does not wait, or its operation has completed, its next wait
   raises the error, so that no value is lost. A pending callback is dropped. If the go block has died of another error,
   or does before it gets this one, that error is not reported any more. Returns false if there is nothing left to
   cancel. May raise, and then nothing has happened. */
bool go_cancel(lua_State *L, Sched *S, Go *go, int at, int reason);

/* If the go block waits in a take on the channel, and on nothing else, withdraws that take, which returns nil, and
   returns true. Otherwise nothing happens, now or later. */
bool go_withdraw_take(lua_State *L, Sched *S, Go *go, const Chan *ch);

/* Makes the error at index `err`, which may be nil, count as what the go block at index `at` was cancelled with. May
   raise. */
void go_excuse(lua_State *L, int at, int err);

/* Pushes what a go block was last cancelled with. */
void go_push_cancellation(lua_State *L, const Go *go);

/* Whether the error at index `err` is what the go block whose userdata is at index `at` was cancelled with. Such an
   error is not reported. */
bool go_is_cancellation(lua_State *L, int at, int err);

/* Ends a go block that is about to be resumed, but cannot be: somebody else has resumed its coroutine before it began,
   or has closed it while a debug hook kept the guard from being called. The coroutine is left as it is. */
void go_bury_unfit(lua_State *L, Sched *S, Go *go);

/* Whether a go block that is not suspended in an operation can begin: its coroutine is as it was made. */
static inline bool go_can_begin(Go *go) {
  bool is_new = go->alt.flags & ALT_BARE;
  if (!(go->alt.flags & ALT_CALLBACK)) go->alt.flags &= (uint8_t)~ALT_BARE;
  return LIKELY(is_new && lua_status(go->alt.co) == LUA_OK && lua_gettop(go->alt.co) > go->alt.nresults + 1);
}

/* Ends a go block whose coroutine has left lua_resume with that status and `n` results, and does not wait. Does not
   raise. */
void go_left(lua_State *L, Sched *S, Go *go, int status, int n);

/* The `from` argument of lua_resume for go blocks, from which Lua counts nested C calls. Before Lua 5.4.4 a coroutine
   that is resumed from NULL may nest few of them. */
static inline lua_State *go_resumer(lua_State *L) { return BEFORE_LUA_5_4_4 ? L : NULL; }

/* Resumes a go block that was ready, and ends it if its function has returned or raised.

   It is resumed from NULL (go_resumer), so C calls in the go block do not count as nested in the C calls that have led
   here. Every go block has the same number of levels, however deep rn.run was called, and enough of them are left when
   it ends.

   Inline, since a yield is a longjmp, after which the processor mispredicts the return of each function up to here:
   each function less saves 5 to 10 ns. */
static inline void go_resume(lua_State *L, Sched *S, Alt *alt) {
  Go *go = sched_go(alt);
  int n;
  if (UNLIKELY(S->observer != NULL) && !S->observer->run(L, S, go)) return;
  if (UNLIKELY(lua_status(alt->co) != LUA_YIELD || alt->flags & ALT_BARE) && !go_can_begin(go)) {
    go_bury_unfit(L, S, go);
    return;
  }
  S->current = go;
  S->moves = S->vain = 0;
  alt->state = ALT_IDLE;
  int status = lua_resume(alt->co, go_resumer(L), alt->nresults, &n);
  if (UNLIKELY(status != LUA_YIELD || alt->state == ALT_IDLE)) go_left(L, S, go, status, n);
  S->current = NULL;
  OBSERVE(S, left, L, S, alt);
}

/* Sets up what go blocks need; the scheduler's userdata is at SCHED_SELF. */
void go_open(lua_State *L);

#endif
