/* job.c: core.internal.job: starts the jobs of pipelines (lua/runnel/workers/pipeline_jobs.lua) and delivers their
   results. */
#include "core/attr.h"
#include "core/observe.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/turn.h"

/* ---- starting ---- */

/* The user value of a result channel with the value of its job, behind the slot of its buffer. */
enum { JOB_VALUE = CHAN_VALUES + 1 };

/* result() -> a new channel for the results of a job, as chan(1) */
static int job_result(lua_State *L) {
  Sched *S = sched_self(L);
  Chan *ch = chan_new(L, S, sizeof(Chan), JOB_VALUE);
  ch->buf = (Buffer){.kind = BUFFER_FIXED, .limit = 1, .size = 1, .base = CHAN_VALUES};
  observe_birth(L, S, lua_gettop(L));
  return 1;
}

/* value(result) -> the value of the job with this result channel, or nil if it has not begun */
static int job_value(lua_State *L) {
  check_looked(L, 1, "value", "value(result)", LOOK_CHANNEL);
  lua_getiuservalue(L, 1, JOB_VALUE);
  return 1;
}

/* reason(result) -> the error with which the channel was closed, or nil; it does not count as taken */
static int job_reason(lua_State *L) {
  const Chan *ch = check_looked(L, 1, "reason", "reason(result)", LOOK_CHANNEL);
  return attr_push_reason(L, ch, 1);
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
  check_looked(L, 4, "call", "call(on_park, f, value, result)", LOOK_CHANNEL);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, 4, JOB_VALUE);
  S->on_park = check_looked(L, 1, "call", "call(on_park, f, value, result)", LOOK_CHANNEL);
  lua_callk(L, 2, 0, 0, job_called);
  S->on_park = NULL;
  return 0;
}

/* ---- delivering ---- */

enum { RESULT = 1, TO, VALUE };

/* Takes a result. The delivering go block's give_up table holds the channel. */
static const Operation TAKE = {.name = "take", .waiter = WAITER_UNCOUNTED | WAITER_KEPT};
static const Operation PUT = {.name = "put", .is_put = true, .waiter = WAITER_UNCOUNTED | WAITER_GIVES_UP};

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
  for (;; n = 0) {
    if (n == 0) n = chan_take(L, result, RESULT);
    if (n == TAKE_WAIT) return park_on(L, result, RESULT, &TAKE, has_taken);
    if (lua_isnil(L, VALUE)) return n;
    if (chan_put(L, to, TO, VALUE) == PUT_WAIT) return park_on(L, to, TO, &PUT, has_put);
    if (moving_is_turn_over(to->sched)) return park_yield(L, to->sched, &PUT, has_put);
    lua_settop(L, TO);
  }
}

/* deliver(result, to) -> nil | nil, err: moves values until `result` is closed, and returns its error. Once `to` is
   closed the values are dropped, so that their job can finish. The caller keeps `result` alive even if other code
   closes its coroutine. */
static int job_deliver(lua_State *L) {
  check_looked(L, RESULT, "take", "deliver(result, to)", LOOK_CHANNEL);
  check_looked(L, TO, "put", "deliver(result, to)", LOOK_CHANNEL);
  lua_settop(L, TO);
  return deliver(L, 0);
}

void lua_job_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"call", job_call},     {"result", job_result},   {"value", job_value},
      {"reason", job_reason}, {"deliver", job_deliver}, {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "job");
}
