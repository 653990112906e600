/* lua/job.c: core.internal.job: pipelines (lua/runnel/pipeline.lua) use it to take a value, start its job and deliver
   the results. */
#include "blocks/alts.h"
#include "blocks/park.h"
#include "core/observe.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/moving.h"
#include "sharing/chan_shared.h"

static const Operation TAKE = {.name = "take", .waiter = WAITER_FREE};
static const Operation PUT = {.name = "put", .is_put = true, .waiter = WAITER_FREE | WAITER_GIVES_UP};

/* ---- the next value ---- */

/* A take from one of two channels. */
static const Operation NEXT = {.name = "take", .flags = ALT_SELECT | ALT_INDEX, .waiter = WAITER_FREE};

/* Waits for `from`, or until `to` closes. */
static int wait_for_next(lua_State *L, Chan *from, Chan *to) {
  lua_settop(L, ALT_BLOCK);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  chan_push_done(L, to, 2);
  lua_pushnil(L);
  AltsOp ops[2] = {{.ch = from}, {.ch = (Chan *)lua_touserdata(L, alts_at(1))}};
  Alts a = {.op = &NEXT, .ops = ops, .n = 2, .priority = true};
  int n = alts_try(L, from->sched, &a); /* a finalizer may have used one of them */
  return n ? n : alts_wait(L, from->sched, &a);
}

static int next(lua_State *L, int status, lua_KContext alt) {
  Chan *from = check_chan(L, 1, "take", "next(from, to)"), *to = check_chan(L, 2, "take", "next(from, to)");
  if (moving_is_turn_over(L, from->sched, status, alt)) return moving_let_others_run(L, from->sched, &TAKE, next);
  if (UNLIKELY(chan_is_closed(to))) return 0;
  int n = chan_take(L, from, 1);
  if (n == TAKE_WAIT) return wait_for_next(L, from, to);
  from->sched->world.moves++;
  if (n == 1) return 1;
  lua_pushnil(L);
  lua_insert(L, -2);
  return 3;
}

/* next(from, to) -> v | nil | nil, _, err: takes a value from `from`. Ends with nil when `to` is closed, also while it
   waits; then nothing is taken. */
static int job_next(lua_State *L) { return next(L, LUA_OK, 0); }

/* ---- starting ---- */

/* The user value of a result channel with the value of its job, behind the slot of its buffer. */
enum { JOB_VALUE = CHAN_VALUES + 1 };

/* result() -> a new channel for the results of a job, as chan(1) */
static int job_result(lua_State *L) {
  Sched *S = sched_self(L);
  Chan *ch = chan_new(L, S, sizeof(Chan), JOB_VALUE);
  ch->buf = (Buffer){.kind = BUFFER_FIXED, .limit = 1, .size = 1, .base = CHAN_VALUES};
  ch->flags = CHAN_SLOTS;
  observe_birth(L, S, lua_gettop(L));
  return 1;
}

/* value(result) -> the value of the job that has this result channel, or nil if it has not begun */
static int job_value(lua_State *L) {
  check_chan(L, 1, "value", "value(result)");
  lua_getiuservalue(L, 1, JOB_VALUE);
  return 1;
}

/* f has parked, and has returned. */
static int job_called(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_pushboolean(L, 1);
  return 1;
}

/* call(on_park, f, value, result) -> whether f has parked: calls f(value, result). When f parks, the first take that
   waits on `on_park` completes. */
static int job_call(lua_State *L) {
  Sched *S = sched_self(L);
  check_chan(L, 4, "call", "call(on_park, f, value, result)");
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, 4, JOB_VALUE);
  sched_wake_on_park(S, check_chan(L, 1, "call", "call(on_park, f, value, result)"));
  lua_callk(L, 2, 0, 0, job_called);
  sched_wake_on_park(S, NULL);
  return 0;
}

/* ---- delivering ---- */

enum { RESULT = 1, TO, VALUE };

/* The take of a result. The go block that delivers has the channel in what is passed to its give_up. */
static const Operation RESULT_TAKE = {.name = "take", .waiter = WAITER_FREE | WAITER_KEPT};

static int deliver(lua_State *L, int n);

static int has_taken(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  return deliver(L, park_resumed(L, (Alt *)alt));
}

static int has_put(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  lua_settop(L, TO);
  return deliver(L, 0);
}

/* Continues with the `n` results of a take, which are on top of L; or with the next take if `n` is 0. */
static int deliver(lua_State *L, int n) {
  Chan *result = (Chan *)lua_touserdata(L, RESULT), *to = (Chan *)lua_touserdata(L, TO);
  Sched *S = result->sched;
  for (;; n = 0) {
    if (n == 0) {
      if (moving_is_turn_over(L, S, LUA_OK, 0)) return moving_let_others_run(L, S, &TAKE, has_put);
      n = chan_take(L, result, RESULT);
      if (n == TAKE_WAIT) return moving_park(L, result, RESULT, &RESULT_TAKE, has_taken);
    }
    if (lua_isnil(L, VALUE)) return n;
    if (chan_put(L, to, TO, VALUE) == PUT_WAIT) return moving_park(L, to, TO, &PUT, has_put);
    S->world.moves++;
    lua_settop(L, TO);
  }
}

/* deliver(result, to) -> nil | nil, err: moves values until `result` is closed, and returns with what error. Once `to`
   is closed the values are dropped, so that their job can finish. The caller keeps `result` alive even if somebody
   closes its coroutine. */
static int job_deliver(lua_State *L) {
  check_chan(L, RESULT, "take", "deliver(result, to)");
  check_chan(L, TO, "put", "deliver(result, to)");
  lua_settop(L, TO);
  return deliver(L, 0);
}

/* ---- about channels ---- */

/* is_plain(ch) -> see lua/moving.h */
static int job_is_plain(lua_State *L) {
  const Chan *ch = check_chan(L, 1, "is_plain", "is_plain(ch)");
  lua_pushboolean(L, moving_is_plain(ch));
  return 1;
}

void lua_job_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"next", job_next},         {"call", job_call},   {"result", job_result}, {"deliver", job_deliver},
      {"is_plain", job_is_plain}, {"value", job_value}, {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "job");
}
