/* park.c: see park.h. */
#include "blocks/park.h"

#include <lauxlib.h>

#include "blocks/go.h"
#include "blocks/inspect.h"
#include "blocks/sched.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "core/attr.h"
#include "errors/error.h"
#include "lifetimes/keep.h"
#include "lifetimes/root.h"
#include "sharing/chan_shared.h"
#include "sharing/shared_inbox.h"

#ifdef RUNNEL_DEBUG
#include <assert.h>
#endif

/* Raises an error: the operation cannot wait where it was called. */
static int cannot_wait(lua_State *L, const Operation *op, const char *where) {
  lua_pushfstring(L,
                  "%s would have to wait, which is impossible %s: use offer or poll, or put_async or take_async, or "
                  "do it in a go block of its own (rn.go)",
                  op->name, where);
  return error_raise(L);
}

/* Raises what the running go block was cancelled with. */
static int raise_cancelled(lua_State *L, Go *go) {
  go->alt.flags &= (uint8_t)~ALT_CANCEL;
  root_push(L, go);
  int at = lua_gettop(L);
  attr_push(L, at, ATTR_CANCEL_2);
  if (lua_isnil(L, -1)) attr_push(L, at, ATTR_CANCEL);
  return lua_error(L);
}

Alt *park_begin_elsewhere(lua_State *L, Sched *S, const Operation *op) {
  Go *go = S->current;
  if (S->inside) cannot_wait(L, op, lua_pushfstring(L, "inside %s", S->inside));
  if (go && go->alt.co != L) {
    cannot_wait(L, op, "inside a coroutine of your own within a go block: only the go block itself can park");
  }
  if (S->running && (!go || go->alt.flags & ALT_CALLBACK)) cannot_wait(L, op, "inside a callback");
  if (go && go->alt.flags & ALT_CANCEL && lua_isyieldable(L)) raise_cancelled(L, go);
  if (go) {
    cannot_wait(L, op,
                "across a C call (a metamethod, table.sort, string.gsub, or another C function that called back)");
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

/* The rare part of park_resumed: raises, unless a cancelled go block has got results. */
static void raise_pending(lua_State *L, Alt *alt) {
  if (alt->flags & ALT_RAISE) {
    alt->flags &= (uint8_t)~ALT_RAISE;
    lua_error(L);
  }
  if (alt->nresults == 0) raise_cancelled(L, sched_go(alt));
}

int park_resumed(lua_State *L, Alt *alt) {
  if (UNLIKELY(alt->state != ALT_IDLE)) {
    return go_kill(L, sched_go(alt));
  }
  alt->flags &= (uint8_t) ~(ALT_SELECT | ALT_INDEX | ALT_LOOP);
  if (UNLIKELY(alt->flags & (ALT_RAISE | ALT_CANCEL))) raise_pending(L, alt);
  return alt->nresults;
}

int park_return(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  return park_resumed(L, (Alt *)alt);
}

/* Waits outside any go block, by running the loop. */
static int wait_outside(lua_State *L, Sched *S, Alt *alt, const Operation *op) {
  int status = sched_call_loop(L, S);
  if (UNLIKELY(alt->shared) && alt->state != ALT_READY && status != LUA_OK && !shared_wait_withdraw(S, alt)) {
    shared_inbox_drain(L, S); /* seldom covered: another thread completes it just then */
  }
  uint8_t flags = alt->flags;
  if (alt->state != ALT_READY) {
    if (status == LUA_OK) inspect_push_waiting(L, alt, op->name);
    alt_stop_waiting(S, alt);
    alt->flags = ALT_BARE;
    if (status != LUA_OK) return lua_error(L);
    return inspect_raise_deadlock(L, op->name);
  }
  alt->state = ALT_IDLE;
  alt->flags = ALT_BARE;
  if (status != LUA_OK) {
    /* The operation has completed, and then something else failed: report the error and return the results. */
    lua_pushnil(L);
    lua_pushnil(L); /* the scheduler's own error, not a go block's */
    error_report(L);
  }
  luaL_checkstack(L, alt->nresults, NULL);
  lua_xmove(alt->co, L, alt->nresults);
  if (flags & ALT_RAISE) return lua_error(L);
  return alt->nresults;
}

/* See sched_wake_on_park. Neither allocates nor raises. */
static void wake_taker(lua_State *L, Sched *S) {
  Waiter *w = chan_first_taker(S->parks_wake);
  sched_wake_on_park(S, NULL);
  if (!w) return;
  lua_pushboolean(L, 1);
  chan_complete_take(L, w);
}

int park_wait(lua_State *L, Sched *S, Alt *alt, const Operation *op, lua_KFunction k) {
#ifdef RUNNEL_DEBUG
  for (uint32_t i = 0; i < alt->count; i++) chan_check(alt_waiters(alt)[i].chan);
  assert(!(alt->flags & ALT_CANCEL));
#endif
  if (UNLIKELY(S->park_checks & PARK_KEPT)) keep_trim_grown(L, S, alt->count);
  if (UNLIKELY(alt == &S->outside)) return wait_outside(L, S, alt, op);
  alt->since = S->world.looked;
  if (UNLIKELY(S->park_checks & PARK_WAKES)) wake_taker(L, S);
  return lua_yieldk(L, 0, (lua_KContext)alt, k ? k : park_return);
}

/* park_on for a handle of a shared channel, with the alt of park_begin. The operation may complete now. */
static int park_on_shared(lua_State *L, Alt *alt, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  Sched *S = ch->sched;
  keep_channel(L, ch, at);
  SharedWait *shared = chan_shared_begin(L, S, 1);
  chan_shared_add(L, shared, at, at, op->is_put, op);
  int n = chan_shared_do(L, S, shared, alt, 0);
  if (n && (op->is_put ? !lua_toboolean(L, -1) : lua_isnil(L, -n))) ch->flags |= CHAN_CLOSED;
  if (n && (!k || alt == &S->outside)) return n;
  if (op->waiter & WAITER_FREE) S->world.moves = 0;
  if (n) {
    /* So that `k` is called. */
    alt->nresults = (uint16_t)n; /* seldom covered: another thread came between */
    alt_make_ready(S, alt);      /* seldom covered: see above */
  } else {
    alt_enqueue_single(ch, alt, at, op->is_put, op->waiter);
    alt->flags |= op->flags;
  }
  return park_wait(L, S, alt, op, k);
}

/* park_shared in two steps: tries, and then waits. */
static int try_and_park(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  if (op->is_put) {
    PutResult result = chan_put(L, ch, at, at + 1);
    if (result == PUT_WAIT) return park_on(L, ch, at, op, k);
    lua_pushboolean(L, result == PUT_DONE);
    return 1;
  }
  int n = chan_shared_take(L, ch, at, op->flags & ALT_LOOP);
  return n == TAKE_WAIT ? park_on(L, ch, at, op, k) : n;
}

/* Whether the caller of an operation can wait, and need not raise first. */
static bool park_is_possible(lua_State *L, const Sched *S) {
  const Go *go = S->current;
  if (S->inside) return false;
  if (!go) return !S->running;
  return go->alt.co == L && !(go->alt.flags & (ALT_CALLBACK | ALT_CANCEL)) && lua_isyieldable(L);
}

/* Without a buffer the other side often comes first, but as often it does not: so both steps are one, which takes the
   lock once. That prepares for waiting, and is slower where there is a buffer, which mostly has room or a value. Two
   steps, too, where the caller cannot wait, but may do what is possible now; and for an observer, which records only the
   first. */
int park_shared(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  Sched *S = ch->sched;
  if (op->waiter & WAITER_FREE) S->world.moves++;
  bool is_one = chan_shared_meets(ch) && !S->observer && !(op->is_put && ch->flags & CHAN_CLOSED);
  if (!is_one || !park_is_possible(L, S)) return try_and_park(L, ch, at, op, k);
  return park_on_shared(L, park_begin(L, S, op), ch, at, op, k);
}

int park_on_unusual(lua_State *L, Chan *ch, int at, const Operation *op, lua_KFunction k) {
  Sched *S = ch->sched;
  Alt *alt = park_begin(L, S, op);
  if (UNLIKELY(chan_is_shared(ch))) return park_on_shared(L, alt, ch, at, op, k);
  if (UNLIKELY(!(op->waiter & WAITER_FREE) && !chan_has_room(ch, op->is_put))) {
    return chan_no_room(L, ch, at, op->is_put);
  }
  if (!(op->waiter & WAITER_KEPT)) keep_channel(L, ch, at);
  alt_enqueue_single(ch, alt, at, op->is_put, op->waiter);
  if (UNLIKELY(op->waiter & WAITER_GIVES_UP)) ch->flags |= CHAN_GIVE_UP;
  alt->flags |= op->flags;
  return park_wait(L, S, alt, op, k);
}

int park_yield(lua_State *L, Sched *S, const Operation *op, lua_KFunction k) {
  Alt *alt = park_begin(L, S, op);
  alt->nresults = 0;
  alt_make_ready(S, alt);
  return park_wait(L, S, alt, op, k);
}
