/* park.c: see park.h. */
#include "blocks/park.h"

#include <lauxlib.h>

#include "blocks/go.h"
#include "blocks/go_close.h"
#include "blocks/sched.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "errors/error.h"
#include "errors/inspect.h"
#include "errors/name.h"
#include "lifetimes/keep.h"
#include "lifetimes/root.h"
#include "states/shared_inbox.h"
#include "states/shared_wait.h"

/* Raises an error: the operation cannot wait in this place. */
static int cannot_wait(lua_State *L, const Operation *op, const char *where, const char *advice) {
  lua_pushfstring(L,
                  "%s would have to wait, which is impossible %s: %suse offer or poll, or put_async or take_async, or "
                  "do it in a go block of its own (rn.go)",
                  op->name, where, advice);
  return error_raise(L);
}

/* Raises the error with which the running go block was cancelled. A go block that the program has started keeps
   ALT_CANCEL, and each later wait raises, too: a pcall in a loop must not keep it alive. Others get the error once: the
   library's go blocks, a dying one that waits to clean up, and a simulation's function (a deadlock). */
static int raise_cancelled(lua_State *L, Go *go) {
  bool is_told_once = go->chan.flags & CHAN_DYING || go == go->chan.sched->awaited || name_is_library(L, go);
  if (is_told_once) go->alt.flags &= (uint8_t)~ALT_CANCEL;
  else go->chan.flags |= CHAN_TOLD;
  go_push_cancellation(L, go);
  return lua_error(L);
}

/* Raises that error again. Doing so in an endless loop would stop all other go blocks: after some times the go block
   dies of the error, which no pcall catches. */
static int raise_cancelled_again(lua_State *L, Go *go) {
  go->chan.sched->vain += PARK_VAIN / 1000;
  return go->chan.sched->vain < PARK_VAIN ? raise_cancelled(L, go) : go_kill(L, go);
}

Alt *park_begin_elsewhere(lua_State *L, Sched *S, const Operation *op) {
  Go *go = S->current;
  if (S->inside) cannot_wait(L, op, lua_pushfstring(L, "inside %s", S->inside), "");
  if (go && go->alt.co != L) {
    cannot_wait(L, op, "inside a coroutine of your own within a go block: only the go block itself can park", "");
  }
  if (S->running && (!go || go->alt.flags & ALT_CALLBACK)) cannot_wait(L, op, "inside a callback", "");
  if (go && go->alt.flags & ALT_CANCEL && lua_isyieldable(L)) {
    if (!(go->chan.flags & CHAN_TOLD)) raise_cancelled(L, go);
    if (op->cleans_up || go_close_is_running(L)) return &go->alt;
    raise_cancelled_again(L, go);
  }
  if (go) {
    cannot_wait(L, op,
                "across a C call (a metamethod, table.sort, string.gsub, or another C function that called back)",
                "do it before that call, and let the function use what it has got; or ");
  }
  Alt *alt = &S->outside;
  int n = lua_gettop(L);
  lua_settop(alt->co, 0);
  luaL_checkstack(L, n, NULL);
  if (!lua_checkstack(alt->co, n + LUA_MINSTACK)) luaL_error(L, "stack overflow");
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_xmove(L, alt->co, n);
  return alt;
}

int park_resumed(lua_State *L, Alt *alt) {
  /* cppcheck-suppress ctunullpointer; a function that is its own continuation has no alt at its first call only */
  if (UNLIKELY(alt->state != ALT_IDLE)) return go_kill(L, sched_go(alt));
  alt->flags &= (uint8_t) ~(ALT_SELECT | ALT_INDEX | ALT_LOOP);
  if (UNLIKELY(alt->flags & ALT_RAISE)) {
    alt->flags &= (uint8_t)~ALT_RAISE;
    return lua_error(L);
  }
  if (UNLIKELY(alt->flags & ALT_CANCEL) && alt->nresults == 0 && !(sched_go(alt)->chan.flags & CHAN_TOLD)) {
    return raise_cancelled(L, sched_go(alt));
  }
  return alt->nresults;
}

int park_return(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  return park_resumed(L, (Alt *)alt);
}

/* Waits outside any go block, by running the loop. */
static int wait_outside(lua_State *L, Sched *S, Alt *alt, const Operation *op) {
  int status = sched_call_loop(L, S);
  if (UNLIKELY(alt->shared) && status != LUA_OK && !shared_wait_withdraw(S, alt)) {
    shared_inbox_drain(L, S); /* seldom covered: another thread completes it just then */
  }
  uint8_t flags = alt->flags;
  bool is_done = alt->state == ALT_READY;
  if (!is_done && status == LUA_OK) {
    S->running = true; /* a finalizer must not wait now: it would use this alt */
    inspect_push_waiting(L, alt, op->name);
    S->running = false;
  }
  alt_stop_waiting(S, alt);
  alt->flags = ALT_BARE;
  if (!is_done) {
    lua_settop(alt->co, 0); /* else the mailbox would keep the channels alive */
    return status == LUA_OK ? inspect_raise_deadlock(L, op->name) : lua_error(L);
  }
  if (status != LUA_OK && !error_defer_interrupt(L)) {
    /* The operation completed before something else failed: report that error and return the results. */
    lua_pushnil(L);
    lua_pushnil(L); /* the scheduler's own error, not a go block's */
    error_report(L);
  }
  luaL_checkstack(L, alt->nresults, NULL);
  lua_xmove(alt->co, L, alt->nresults);
  lua_settop(alt->co, 0);
  return flags & ALT_RAISE ? lua_error(L) : alt->nresults;
}

/* The running go block parks: completes a take on S->on_park. Neither allocates nor raises. */
static void wake_taker(lua_State *L, Sched *S) {
  Waiter *w = chan_first_waiter(S->on_park, TAKES);
  S->on_park = NULL;
  if (!w) return;
  lua_pushboolean(L, 1);
  chan_complete_take(L, w);
}

int park_wait(lua_State *L, Sched *S, Alt *alt, const Operation *op, lua_KFunction k) {
  for (uint32_t i = 0; i < alt->count; i++) chan_check(alt_waiters(alt)[i].chan);
  if (UNLIKELY(alt == &S->outside)) return wait_outside(L, S, alt, op);
  alt->since = S->world.looked;
  if (UNLIKELY(S->on_park != NULL)) wake_taker(L, S);
  return lua_yieldk(L, 0, (lua_KContext)alt, k ? k : park_return);
}

int park_on_unusual(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  Sched *S = ch->sched;
  OBSERVE(S, look, ch, LOOK_CHANNEL); /* it may raise, and has found that it must wait */
  Alt *alt = park_begin(L, S, op);
  if (UNLIKELY(!(op->waiter & WAITER_UNCOUNTED) && !chan_has_room(ch, op->is_put))) {
    return chan_no_room(L, ch, at, op->is_put);
  }
  keep_make_room(L, S, 1);
  keep_channel(L, ch, at);
  const ChanOps *ops = chan_ops(ch);
  int n = ops && ops->wait ? ops->wait(L, ch, at, alt, at, op) : 0;
  if (n && k && alt != &S->outside) {
    alt->nresults = (uint16_t)n; /* seldom covered: another thread was faster */
    return k(L, LUA_YIELD, (lua_KContext)alt);
  }
  if (n) return n;
  alt_enqueue_single(ch, alt, at, op);
  return park_wait(L, S, alt, op, k);
}

int park_yield(lua_State *L, Sched *S, const Operation *op, lua_KFunction k) {
  Alt *alt = park_begin(L, S, op);
  alt->nresults = 0;
  alt_make_ready(S, alt);
  return park_wait(L, S, alt, op, k);
}
