/* shared_inbox.c: see shared_inbox.h. */
#include "states/shared_inbox.h"

#include <lauxlib.h>

#include "channels/alt.h"
#include "core/attr.h"
#include "core/observe.h"
#include "errors/error.h"
#include "states/shared_pack.h"

/* Whether the alt of a wait can still get its result. If other code has closed its coroutine, its go block ends when
   the loop resumes it. */
static bool is_wanted(Sched *S, SharedWait *wait) {
  Alt *alt = wait->local;
  if (!alt) return false;
  if (alt_is_active(alt)) return true;
  wait->local = NULL; /* seldom covered: its coroutine was closed as the value came */
  alt->shared = NULL;
  if (alt->flags & ALT_WEAK) return false;
  alt_stop_waiting(S, alt);
  alt_wake(S, alt, 0);
  return false;
}

/* Wakes the owner of a committed alt, whose take has failed with the error on top of L, which is popped. A callback
   cannot raise it: it gets nil and the error, which is reported. */
static void fail(lua_State *L, Sched *S, Alt *alt) {
  if (alt->flags & ALT_CALLBACK) {
    lua_pushvalue(L, -1); /* seldom covered: there was no memory for the value of a callback */
    lua_pushnil(L);
    lua_pushnil(L);
    error_report(L);
    lua_pushnil(alt->co);
  } else {
    alt->flags |= ALT_RAISE;
  }
  lua_xmove(L, alt->co, 1);
  alt_wake(S, alt, alt->flags & ALT_CALLBACK ? 2 : 1);
}

/* Hands the result of a wait to its alt. */
static void complete(lua_State *L, Sched *S, SharedWait *wait) {
  Sharing *sharing = S->sharing;
  int top = lua_gettop(L);
  if (!is_wanted(S, wait)) {
    shared_wait_refuse(sharing, wait); /* seldom covered: see is_wanted */
    return;
  }
  const SharedWaiter *op = &wait->ops[wait->alt.result.op];
  /* The wait keeps the value until its alt gets it: unpacking may run finalizers. */
  SharedResult result = wait->alt.result;
  result.value = shared_value_copy(&wait->alt.result.value);
  int n = shared_pack_push_result(L, op, &result, &wait->given);
  if (!n) shared_value_drop(&wait->alt.result.value);
  if (!is_wanted(S, wait)) {
    shared_wait_refuse(sharing, wait); /* seldom covered: a finalizer has ended the go block in the unpacking */
    lua_settop(L, top);
    return;
  }
  Alt *alt = wait->local;
  int at = op->at;
  alt->shared = NULL;
  alt_commit(L, S, alt);
  if (UNLIKELY(S->is_observed) && result.ok) {
    sharing->number = result.value.number;
    OBSERVE(S, shared, L, (Chan *)lua_touserdata(alt->co, at), 0, alt, op->kind == SHARED_PUT);
  }
  if (!n) {
    fail(L, S, alt);
  } else {
    lua_pushvalue(L, top + 1);
    lua_xmove(L, alt->co, 1);
    int port = alt_push_port(alt->co, alt->flags, at);
    if (n == 2) lua_xmove(L, alt->co, 1);
    alt_wake(S, alt, n + port);
  }
  shared_wait_free(sharing, wait);
  lua_settop(L, top);
}

/* A watch has seen that its channel was closed. */
static void closed(lua_State *L, Sched *S, SharedWait *watch) {
  int top = lua_gettop(L);
  SharedHold *hold = watch->watching;
  hold->watch = NULL;
  shared_wait_free(S->sharing, watch);
  SharedHandle *h = shared_wait_push_handle(L, hold);
  if (h) {
    h->chan.flags |= CHAN_CLOSED;
    chan_notify_closed(L, top + 1);
  }
  lua_settop(L, top);
}

void shared_inbox_drain(lua_State *L, Sched *S) {
  Sharing *sharing = S->sharing;
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  shared_wait_busy(sharing);
  for (;;) {
    if (!sharing->arrived) sharing->arrived = owner_pop_all(sharing->owner);
    if (!sharing->arrived) return;
    SharedWait *wait = shared_wait_of(sharing->arrived);
    sharing->arrived = sharing->arrived->next;
    shared_settle(&wait->alt);
    if (wait->watching) closed(L, S, wait);
    else complete(L, S, wait);
  }
}

void shared_inbox_watch(lua_State *L, Chan *ch, const Chan *done) {
  SharedHandle *h = shared_handle_of(ch);
  Sched *S = ch->sched;
  SharedChan *shared = shared_handle_chan(L, ch);
  if (done) h->done = done;
  if (h->hold->watch) return;
  SharedWait *watch = shared_wait_new(S->sharing, 1);
  if (!watch) shared_handle_no_memory(L);
  watch->ops[0] = (SharedWaiter){.chan = shared, .kind = SHARED_WATCH, .is_uncounted = true};
  watch->n = 1;
  SharedResult result;
  SharedOutcome outcome = shared_do(watch->ops, 1, NULL, &watch->alt, &result);
  watch->watching = h->hold;
  if (outcome == SHARED_WAITS) {
    h->hold->watch = watch;
    list_append(&S->sharing->waits, &watch->link);
  } else {
    closed(L, S, watch);
  }
}
