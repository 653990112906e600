/* go.h: the life of a go block: how it is made, resumed, cancelled, and ended. */
#ifndef RUNNEL_GO_H
#define RUNNEL_GO_H

#include "core/observe.h"

/* Makes a go block of the function and its `nargs` arguments on top of L, and appends it to the run queue. Its
   userdata, the result channel, replaces them. */
Go *go_spawn(lua_State *L, Sched *S, int nargs);

/* Makes a go block that feeds a channel. On top of L, and replaced: give_up, fed, the function and its arguments. If
   the go block dies in any way, the scheduler calls give_up(fed, reason, its result channel, whether the error is
   reported, traceback or nil), which must not wait. If that fails, go_close_fed closes what is fed. */
Go *go_spawn_feeding(lua_State *L, Sched *S, int nargs);

/* Closes the channel, or the channels of the list, at index `fed`; ignores other values. The value at index `reason`,
   which may be nil, is the reason. Does not raise. A plain channel needs no memory for that; if a special one has too
   little, its reason becomes "out of memory". */
void go_close_fed(lua_State *L, int fed, int reason);

/* Makes a go block that has not started, for a pending take_async or put_async. The `n` values on top of L move to its
   stack and are replaced by its userdata. The caller must commit its alt before it enqueues or wakes it: a sweep may
   have made it a weak root meanwhile. */
Go *go_spawn_waiting(lua_State *L, Sched *S, int n);

/* For the coroutine L of a go block that other code has resumed: the go block does not complete its operation, but dies
   when the loop resumes it. Does not return: L yields whenever it is resumed, until it is closed. */
int go_kill(lua_State *L, Go *go);

/* Cancels the go block whose userdata is at index `at`, with the error at index `reason`. If it waits, its operation is
   withdrawn, and it resumes by raising the error. If it does not wait, or its operation has completed, its next wait
   raises the error, so that no value is lost. A pending callback is dropped. If the go block has died of another error,
   or dies of one before it gets this one, that error is not reported. Returns false if there is nothing to cancel. May
   raise, and then nothing has happened. */
bool go_cancel(lua_State *L, Sched *S, Go *go, int at, int reason);

/* If the go block waits only in a take on this channel, withdraws the take, which returns nil, and returns true. */
bool go_withdraw_take(lua_State *L, Sched *S, Go *go, const Chan *ch);

/* Makes the error at index `err`, or nil, count as the one with which the go block at `at` was cancelled. May raise. */
void go_excuse(lua_State *L, int at, int err);

/* Pushes the error with which a go block was last cancelled. */
void go_push_cancellation(lua_State *L, const Go *go);

/* Whether the go block at index `at` was cancelled with the error at index `err`, which is then not reported. */
bool go_is_cancellation(lua_State *L, int at, int err);

/* Ends a go block that the loop cannot resume: other code has resumed its coroutine before it began, or has closed it
   while a debug hook kept the guard from being called. Leaves the coroutine as it is. */
void go_bury_unfit(lua_State *L, Sched *S, Go *go);

/* Whether a go block that is not suspended in an operation can begin: its coroutine is as new. */
static inline bool go_can_begin(Go *go) {
  bool is_new = go->alt.flags & ALT_BARE;
  if (!(go->alt.flags & ALT_CALLBACK)) go->alt.flags &= (uint8_t)~ALT_BARE;
  return LIKELY(is_new && lua_status(go->alt.co) == LUA_OK && lua_gettop(go->alt.co) > go->alt.nresults + 1);
}

/* Ends a go block that does not wait after lua_resume has returned `status` and `n` results. Does not raise. */
void go_left(lua_State *L, Sched *S, Go *go, int status, int n);

/* The `from` argument of lua_resume, from which Lua counts nested C calls. NULL: C calls do not count as nested in
   those that have led here, so all go blocks may nest equally many. Before Lua 5.4.4, NULL allows few. */
static inline lua_State *go_resumer(lua_State *L) { return BEFORE_LUA_5_4_4 ? L : NULL; }

/* Resumes a go block from the run queue, and ends it if its function has returned or raised. Inline, since a yield is a
   longjmp, after which the processor mispredicts the return of each function up to here, at 5 to 10 ns each. */
static inline void go_resume(lua_State *L, Sched *S, Alt *alt) {
  Go *go = sched_go(alt);
  int n;
  if (!observe_run(L, S, go)) return;
  if (UNLIKELY(lua_status(alt->co) != LUA_YIELD || alt->flags & ALT_BARE) && !go_can_begin(go)) {
    go_bury_unfit(L, S, go);
    return;
  }
  S->current = go;
  S->actor = go->chan.id;
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
