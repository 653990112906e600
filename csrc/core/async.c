/* async.c: see async.h. */
#include "core/async.h"

#include "core/alt.h"
#include "core/chan.h"
#include "core/error.h"
#include "core/go.h"

/* How deep callbacks may nest: a callback that takes again may be called at once, within the first. Beyond this depth
   the scheduler calls it, so that the C stack does not overflow. */
enum { MAX_NESTED = 8 };

/* The stack of a go block that will run a callback: its guard, the channel, the value of a put, the callback. */
enum { AT_CHAN = 2 };

/* Calls the callback at index `f` with the `n` values on top of L, now and protected. */
static void call_now(lua_State *L, Sched *S, int f, int n) {
  lua_pushvalue(L, f);
  lua_insert(L, -n - 1);
  S->nested++;
  error_call(L, n, "a callback", 1);
  S->nested--;
}

/* Enqueues an operation whose callback will run in `go`. */
static void enqueue(lua_State *L, Chan *ch, Go *go, bool is_put) {
  alt_commit(L, ch->sched, &go->alt); /* a sweep may have made it a weak root */
  alt_enqueue_single(ch, &go->alt, AT_CHAN, is_put, 0);
  chan_check(ch);
}

void async_take(lua_State *L, Chan *ch, bool on_caller) {
  Sched *S = ch->sched;
  int n;
  if (on_caller && S->nested < MAX_NESTED && (n = chan_take(L, ch, 1)) != TAKE_WAIT) {
    call_now(L, S, 2, n);
    return;
  }
  if (!chan_has_room(ch, false)) chan_no_room(L, ch, 1, false);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  Go *go = go_spawn_waiting(L, S, 2);
  /* Tried again: that may have run finalizers. */
  if ((n = chan_take(L, ch, 1)) != TAKE_WAIT) {
    lua_xmove(L, go->alt.co, n);
    alt_complete(L, S, &go->alt, n);
  } else {
    if (!chan_has_room(ch, false)) chan_no_room(L, ch, 1, false);
    enqueue(L, ch, go, false);
  }
}

bool async_put(lua_State *L, Chan *ch, bool on_caller) {
  Sched *S = ch->sched;
  PutResult result;
  if (on_caller && S->nested < MAX_NESTED && (result = chan_put(L, ch, 1, 2)) != PUT_WAIT) {
    lua_pushboolean(L, result == PUT_DONE);
    call_now(L, S, 3, 1);
    return result == PUT_DONE;
  }
  if (!chan_has_room(ch, true)) chan_no_room(L, ch, 1, true);
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, i);
  Go *go = go_spawn_waiting(L, S, 3);
  /* Tried again: that may have run finalizers. */
  if ((result = chan_put(L, ch, 1, 2)) == PUT_WAIT) {
    if (!chan_has_room(ch, true)) chan_no_room(L, ch, 1, true);
    enqueue(L, ch, go, true);
    return true;
  }
  lua_pushboolean(go->alt.co, result == PUT_DONE);
  alt_complete(L, S, &go->alt, 1);
  return result == PUT_DONE;
}
