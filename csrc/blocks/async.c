/* async.c: see async.h. */
#include "blocks/async.h"

#include "blocks/go.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "errors/error.h"
#include "sharing/chan_shared.h"

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

/* The operations, for messages. */
static const Operation TAKE = {.name = "take_async"}, PUT = {.name = "put_async", .is_put = true};

/* Raises if one more operation is too many for the channel, before there is a go block for it. */
static void check_room(lua_State *L, Chan *ch, bool is_put) {
  if (UNLIKELY(chan_is_shared(ch))) {
    ChanStats stats = chan_stats(L, ch);
    if (!(is_put ? stats.puts_full : stats.takes_full)) return;
  } else if (LIKELY(chan_has_room(ch, is_put))) {
    return;
  }
  chan_no_room(L, ch, 1, is_put);
}

/* Enqueues an operation whose callback will run in `go`. */
static void enqueue(lua_State *L, Chan *ch, Go *go, bool is_put) {
  alt_commit(L, ch->sched, &go->alt); /* a sweep may have made it a weak root */
  if (UNLIKELY(chan_is_shared(ch))) {
    Sched *S = ch->sched;
    SharedWait *wait = chan_shared_begin(L, S, 1);
    chan_shared_add(L, wait, 1, AT_CHAN, is_put, is_put ? &PUT : &TAKE);
    int n = chan_shared_do(L, S, wait, &go->alt, 0);
    if (n) {
      lua_xmove(L, go->alt.co, n); /* seldom covered: another thread has come between */
      alt_wake(S, &go->alt, n);
      return;
    }
  }
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
  check_room(L, ch, false);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  Go *go = go_spawn_waiting(L, S, 2);
  /* Tried again: that may have run finalizers. */
  if ((n = chan_take(L, ch, 1)) != TAKE_WAIT) {
    lua_xmove(L, go->alt.co, n);
    alt_complete(L, S, &go->alt, n);
  } else {
    check_room(L, ch, false);
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
  check_room(L, ch, true);
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, i);
  Go *go = go_spawn_waiting(L, S, 3);
  /* Tried again: that may have run finalizers. */
  if ((result = chan_put(L, ch, 1, 2)) == PUT_WAIT) {
    check_room(L, ch, true);
    enqueue(L, ch, go, true);
    return true;
  }
  lua_pushboolean(go->alt.co, result == PUT_DONE);
  alt_complete(L, S, &go->alt, 1);
  return result == PUT_DONE;
}
