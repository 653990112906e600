/* async.c: see async.h. */
#include "blocks/async.h"

#include "blocks/go.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "errors/error.h"

/* The depth of nested callbacks: a callback that takes again may be called at once, within the first. Beyond this depth
   the scheduler calls it, so that the C stack does not overflow. */
enum { MAX_NESTED = 8 };

/* The stack of a go block that runs a callback: the guard, the channel, the value of a put, the callback. */
enum { AT_CHAN = 2 };

/* Calls the callback at index `f`, protected, with the `n` values on top of L. */
static void call_now(lua_State *L, Sched *S, int f, int n) {
  lua_pushvalue(L, f);
  lua_insert(L, -n - 1);
  S->nested++;
  if (!error_pcall(L, n, 0, "a callback")) error_report_of(L, 1);
  S->nested--;
}

static const Operation TAKE = {.name = "take_async"}, PUT = {.name = "put_async", .is_put = true};

/* Raises if one more operation is too many for the channel. */
static void check_room(lua_State *L, Chan *ch, bool is_put) {
  bool is_full = !chan_has_room(ch, is_put);
  if (UNLIKELY(chan_is_shared(ch))) {
    ChanStats stats = chan_stats(L, ch);
    is_full = is_put ? stats.puts_full : stats.takes_full;
  }
  if (is_full) chan_no_room(L, ch, 1, is_put);
}

bool async_begin(lua_State *L, Chan *ch, bool is_put, bool on_caller, bool is_hidden) {
  const Operation *op = is_put ? &PUT : &TAKE;
  Sched *S = ch->sched;
  int nargs = lua_gettop(L);
  bool may_call = on_caller && S->nested < MAX_NESTED, is_open = true;
  int n = may_call ? chan_try(L, ch, 1, is_put) : 0;
  if (n) {
    is_open = lua_toboolean(L, -1);
    call_now(L, S, nargs, n);
    return is_open;
  }
  check_room(L, ch, is_put); /* before it makes a go block */
  for (int i = 1; i <= nargs; i++) lua_pushvalue(L, i);
  Go *go = go_spawn_waiting(L, S, nargs);
  Alt *alt = &go->alt;
  if (is_hidden) chan_hide(&go->chan);
  n = chan_try(L, ch, 1, is_put); /* again: finalizers may have run */
  if (!n) check_room(L, ch, is_put);
  const ChanOps *ops = chan_ops(ch);
  if (!n && ops && ops->wait) n = ops->wait(L, ch, 1, alt, AT_CHAN, op);
  alt_commit(L, S, alt); /* after all that allocates: a sweep may have made it a weak root */
  if (n) {
    is_open = lua_toboolean(L, -1);
    lua_xmove(L, alt->co, n);
    alt_wake(S, alt, n);
  } else {
    alt_enqueue_single(ch, alt, AT_CHAN, op);
  }
  chan_check(ch);
  return is_open;
}
