/* capi/api_wait.c: operations that wait, in the C API; see runnel.h. */
#include <lauxlib.h>

#include "blocks/alts.h"
#include "blocks/timer.h"
#include "capi/api.h"
#include "capi/hold.h"
#include "channels/chan.h"
#include "timers/delayed.h"

static const Operation ALTS = {.name = "runnel_alts", .flags = ALT_SELECT | ALT_INDEX};
static const Operation TAKE = {.name = "runnel_take", .flags = ALT_SELECT | ALT_INDEX};
static const Operation PUT = {.name = "runnel_put", .flags = ALT_SELECT | ALT_INDEX};

/* The body has the stack of an alts (alt_state.h): from API_VALUES on are nil and nil; then nil for each channel, and
   the value of its put. */
enum { AT_OPS = API_VALUES }; /* the AltsOps */

/* Adds an operation that completes after `ns`: a take from a channel that a timer closes. When the body ends, by an
   error too, the timer is stopped: nothing is left of it. */
static void add_limit(lua_State *L, Sched *S, Alts *a, int64_t ns) {
  int at = alts_at(a->n);
  lua_settop(L, at - 1);
  Chan *limit = chan_new_buffered(L, S, (Buffer){.kind = BUFFER_NONE});
  a->ops[a->n++] = (AltsOp){limit, false, false};
  lua_pushnil(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_DELAYED);
  lua_getfield(L, -1, DELAYED_META);
  lua_replace(L, -2);
  lua_pushvalue(L, at);
  (void)delayed_new(L, S, 0, at + 2);
  lua_toclose(L, at + 3);
  (void)delayed_start(L, S, at + 3, ns);
}

/* Hands on the results of an alts, which are on top of L: value, number of the operation, perhaps the reason of a
   close. */
static int finish(lua_State *L, Call *call, const AltsOp *ops, int results) {
  int value = lua_gettop(L) - results + 1, done = (int)lua_tointeger(L, value + 1) - 1;
  if (done >= call->count) return api_code(call, RUNNEL_EMPTY);
  *call->done = done;
  if (ops[done].is_put && lua_toboolean(L, value)) return 0;
  if (!ops[done].is_put && !lua_isnil(L, value)) {
    lua_settop(L, value);
    return 1;
  }
  call->code = RUNNEL_CLOSED;
  if (results > 2) luaL_tolstring(L, -1, NULL);
  else lua_pushnil(L);
  return API_MESSAGE;
}

static int wait(lua_State *L, Sched *S, Call *call) {
  if (call->ns && (S->running || S->current || S->inside)) return api_code(call, RUNNEL_RUNNING);
  AltsOp *ops = (AltsOp *)lua_newuserdatauv(L, (size_t)(call->count + 1) * sizeof *ops, 0);
  lua_replace(L, AT_OPS);
  for (int i = 0; i < call->count; i++) {
    bool is_put = call->ops[i].value != 0;
    ops[i] = (AltsOp){api_push_chan(L, call->ops[i].ch), is_put, false};
    if (!ops[i].ch || (is_put && lua_isnil(L, alts_at(i) + 1))) return api_code(call, RUNNEL_BAD_ARGUMENT);
    lua_replace(L, alts_at(i));
  }
  Alts a = {.op = call->operation, .ops = ops, .n = call->count, .priority = call->option & RUNNEL_PRIORITY};
  int results = alts_try(L, S, &a);
  if (!results && !call->ns) return api_code(call, RUNNEL_EMPTY);
  if (!results && call->ns > 0) {
    add_limit(L, S, &a, call->ns);
    results = alts_try(L, S, &a); /* again: a finalizer may have used the channels */
  }
  if (!results) results = alts_wait(L, S, &a);
  return finish(L, call, ops, results);
}

static int wait_for(lua_State *L, const runnel_op *ops, int n, int options, int64_t us, int *done,
                    const Operation *operation) {
  if (!L || !ops || !done || n < 1 || n > RUNNEL_ALTS_MAX || options & ~RUNNEL_PRIORITY) return RUNNEL_BAD_ARGUMENT;
  int top = lua_gettop(L), values = 2 + 2 * n;
  for (int i = 0; i < n; i++) {
    if (ops[i].value > top || ops[i].value < -top) return RUNNEL_BAD_ARGUMENT;
  }
  if (!lua_checkstack(L, values + 1)) return RUNNEL_NO_MEMORY;
  lua_settop(L, top + values);
  for (int i = 0; i < n; i++) {
    int value = ops[i].value;
    lua_pushvalue(L, value < 0 ? top + value + 1 : value ? value : top + 1);
    lua_replace(L, top + 4 + 2 * i);
  }
  return api_call(L, values,
                  &(Call){.body = wait,
                          .ops = ops,
                          .count = n,
                          .option = options,
                          .ns = api_ns(us),
                          .done = done,
                          .operation = operation});
}

int runnel_alts(lua_State *L, const runnel_op *ops, int n, int options, int64_t us, int *done) {
  return wait_for(L, ops, n, options, us, done, &ALTS);
}

int runnel_take(lua_State *L, runnel_chan *ch, int64_t us) {
  int done;
  return wait_for(L, &(runnel_op){.ch = ch}, 1, 0, us, &done, &TAKE);
}

int runnel_put(lua_State *L, runnel_chan *ch, int64_t us) {
  int done;
  if (!L || lua_gettop(L) < 1) return RUNNEL_BAD_ARGUMENT;
  int code = wait_for(L, &(runnel_op){.ch = ch, .value = -1}, 1, 0, us, &done, &PUT);
  lua_pop(L, 1);
  return code == RUNNEL_EMPTY ? RUNNEL_FULL : code;
}

/* ---- timeouts ---- */

static int timeout(lua_State *L, Sched *S, Call *call) {
  timer_push_timeout(L, S, call->ns);
  *call->hold = api_hold(L);
  return 0;
}

int runnel_timeout(lua_State *L, int64_t us, runnel_chan **ch) {
  if (us < 0 || !ch) return RUNNEL_BAD_ARGUMENT;
  return api_call(L, 0, &(Call){.body = timeout, .ns = api_ns(us), .hold = ch});
}
