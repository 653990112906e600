/* worker.c: core.internal.worker: the work of the engine's workers (lua/runnel/workers/workers.lua) for each
   value: one call puts a result and takes the next value, and records the phase for other code. */
#include "channels/chan.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/turn.h"

static const Operation TAKE = {.name = "take", .waiter = WAITER_UNCOUNTED};
static const Operation PUT = {.name = "put", .is_put = true, .waiter = WAITER_UNCOUNTED};

/* The phase of a worker. */
typedef enum Phase {
  PHASE_JOB,  /* its job runs; or it does something else between two exchanges */
  PHASE_SEND, /* its job puts a value */
  PHASE_PUT,  /* it puts the result of its job; or the put was refused */
  PHASE_TAKE, /* it waits for a value, or the input had none */
  PHASE_OFF   /* it has not tried to take, since it is off */
} Phase;

static const char *const phase_names[] = {"job", "send", "put", "take", "off"};

/* The state of a worker: a userdata, an upvalue of its functions. */
typedef struct Worker {
  Sched *sched;
  uint64_t block; /* the id of its go block */
  uint64_t since; /* go blocks with lower ids existed before its job began */
  uint64_t taken; /* how many values its exchange has got */
  bool is_off;    /* its exchanges return at once, and its puts are done by the function for special ones */
  bool can_grow;  /* its exchanges call a function if no other worker waits for a value */
  uint8_t phase;  /* a Phase */
} Worker;

/* Upvalues of an exchange function and of a put function; SCHED_SELF is the first one. */
enum { UP_WORKER = 2, UP_GROW, UP_OUT = UP_GROW, UP_SPECIAL };

/* The worker of the running function. */
static inline Worker *worker_self(lua_State *L) { return (Worker *)lua_touserdata(L, lua_upvalueindex(UP_WORKER)); }

static inline void begin_job(Worker *w) {
  w->phase = PHASE_JOB;
  w->since = w->sched->next_id;
}

static int worker_exchange(lua_State *L);

/* Pushes the userdata of the worker whose exchange function is at index `i`, and returns it. */
static Worker *push_worker(lua_State *L, int i) {
  luaL_argcheck(L, lua_tocfunction(L, i) == worker_exchange, i, "the exchange function of a worker expected");
  lua_getupvalue(L, i, UP_WORKER);
  return (Worker *)lua_touserdata(L, -1);
}

/* ---- exchanges: a worker puts a result and takes the next value ---- */

enum { AT_IN = 1, AT_OUT, AT_RESULT };

/* The worker has got a value, which is on top of L; from an iterator, if `in` is NULL. */
static inline int has_value(lua_State *L, Worker *w, const Chan *in) {
  begin_job(w);
  w->taken++;
  if (LIKELY(!w->can_grow) || (in && in->waiting[TAKES])) return 1;
  lua_pushvalue(L, lua_upvalueindex(UP_GROW));
  lua_call(L, 0, 0);
  return 1;
}

/* A take has given `n` results, which are on top of L. */
static inline int has_results(lua_State *L, Worker *w, int n) {
  if (UNLIKELY(lua_isnil(L, -n))) return n;
  return has_value(L, w, (const Chan *)lua_touserdata(L, AT_IN));
}

static int has_taken(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  int n = park_resumed(L, (Alt *)alt);
  return has_results(L, worker_self(L), n);
}

/* Takes from an iterator, which does not wait. */
static int take_from_iterator(lua_State *L, Worker *w) {
  lua_pushvalue(L, AT_IN);
  lua_call(L, 0, 1);
  return has_results(L, w, 1);
}

/* The second half of an exchange. */
static ALWAYS_INLINE int take(lua_State *L, Worker *w) {
  if (UNLIKELY(w->is_off)) {
    w->phase = PHASE_OFF;
    return 0;
  }
  w->phase = PHASE_TAKE;
  Chan *in = (Chan *)lua_touserdata(L, AT_IN);
  if (!in) return take_from_iterator(L, w);
  if (chan_only_fetches(in)) {
    chan_just_fetch(L, in, AT_IN);
    chan_check(in);
    return has_value(L, w, in);
  }
  int n = chan_take(L, in, AT_IN);
  if (n == TAKE_WAIT) return park_on(L, in, AT_IN, &TAKE, has_taken);
  return has_results(L, w, n);
}

/* The put of an exchange has completed; on top of L is whether the value was accepted. */
static int take_if_accepted(lua_State *L) {
  if (UNLIKELY(!lua_toboolean(L, -1))) return 0;
  lua_settop(L, AT_OUT);
  return take(L, worker_self(L));
}

static int has_put(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  return take_if_accepted(L);
}

static int exchange(lua_State *L, int status, lua_KContext alt) {
  if (!chan_to(L, AT_IN) && !lua_isfunction(L, AT_IN)) check_chan(L, AT_IN, "take", "exchange(in, out, result)");
  Worker *w = worker_self(L);
  if (moving_must_yield(L, w->sched, status, alt)) return park_yield(L, w->sched, &TAKE, exchange);
  if (lua_isnoneornil(L, AT_RESULT)) return take(L, w);
  Chan *out = chan_to(L, AT_OUT);
  if (UNLIKELY(w->is_off || !out)) return 0;
  w->phase = PHASE_PUT;
  lua_settop(L, AT_RESULT);
  if (chan_only_stores(out)) {
    chan_just_store(L, out, AT_OUT);
    chan_check(out);
    return take(L, w);
  }
  PutResult result = chan_put(L, out, AT_OUT, AT_RESULT);
  if (result == PUT_WAIT) return park_on(L, out, AT_OUT, &PUT, has_put);
  return LIKELY(result == PUT_DONE) ? take(L, w) : 0;
}

/* exchange(in, out, result) -> v | nil | nil, err: puts the result on `out`, unless it is nil, and takes the next value
   from `in`, a channel or an iterator that never waits. If it returns nil, the phase tells why. "job": there is a
   result, but the worker is off or `out` is no channel: nothing was done. "put": `out` is closed, and the result was
   not put. "off": the worker is off, and nothing was taken. "take": `in` is closed and drained, or the take was
   withdrawn. Lets other go blocks run after 128 values. */
static int worker_exchange(lua_State *L) { return exchange(L, LUA_OK, 0); }

/* ---- puts of a job ---- */

/* A job may do something else between two exchanges: then the phase tells of that. */
static inline void begin_put(lua_State *L) {
  Worker *w = worker_self(L);
  if (w->phase == PHASE_JOB) w->phase = PHASE_SEND;
}

static int was_put(lua_State *L) {
  Worker *w = worker_self(L);
  if (w->phase == PHASE_SEND) w->phase = PHASE_JOB;
  lua_pushboolean(L, 1);
  return 1;
}

static int special_has_put(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return was_put(L);
}

/* Calls the function for special puts with the value and the output at these indices. */
static int put_specially(lua_State *L, int value) {
  begin_put(L);
  lua_pushvalue(L, lua_upvalueindex(UP_SPECIAL));
  lua_pushvalue(L, value);
  lua_pushvalue(L, value + 1);
  lua_callk(L, 2, 0, 0, special_has_put);
  return was_put(L);
}

/* A go block other than the worker's own puts a value. The phase describes the worker's own, so it stays. */
static int helper_has_put(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_pushboolean(L, 1);
  return 1;
}

static int put_by_helper(lua_State *L, const Worker *w, const Go *go) {
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(UP_SPECIAL));
  lua_insert(L, 1);
  lua_pushboolean(L, 1);
  lua_pushboolean(L, go && go->chan.id > w->block && go->chan.id < w->since);
  lua_callk(L, 4, 0, 0, helper_has_put);
  return helper_has_put(L, LUA_OK, 0);
}

/* The output is at index 1, the value at 2, nil at 3, and whether the value was accepted on top of L. */
static int put_if_refused(lua_State *L) { return LIKELY(lua_toboolean(L, -1)) ? was_put(L) : put_specially(L, 2); }

static int value_was_put(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  return put_if_refused(L);
}

static int put_usually(lua_State *L, int status, lua_KContext alt) {
  Chan *out = (Chan *)lua_touserdata(L, 1);
  begin_put(L);
  if (moving_must_yield(L, out->sched, status, alt)) return park_yield(L, out->sched, &PUT, put_usually);
  PutResult result = chan_put(L, out, 1, 2);
  if (result == PUT_WAIT) return park_on(L, out, 1, &PUT, value_was_put);
  return LIKELY(result == PUT_DONE) ? was_put(L) : put_specially(L, 2);
}

/* put(v, output) -> true */
static int job_put(lua_State *L) {
  if (UNLIKELY(lua_isnoneornil(L, 1))) {
    return luaL_error(L, "put: nil cannot be put; put false, or a value of your own that stands for nothing");
  }
  Worker *w = worker_self(L);
  const Go *go = w->sched->current;
  if (UNLIKELY(!go || go->chan.id != w->block)) return put_by_helper(L, w, go);
  bool is_usual = lua_gettop(L) == 1 || lua_isnoneornil(L, 2);
  lua_settop(L, 2 - is_usual);
  Chan *out = (Chan *)lua_touserdata(L, lua_upvalueindex(UP_OUT)); /* worker_bind has checked it */
  if (UNLIKELY(!out || w->is_off || !is_usual)) {
    lua_settop(L, 2);
    return put_specially(L, 1);
  }
  if (chan_only_stores(out) && w->sched->moves < TURN) {
    w->sched->moves++;
    chan_just_store(L, out, lua_upvalueindex(UP_OUT));
    chan_check(out);
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushvalue(L, lua_upvalueindex(UP_OUT));
  lua_insert(L, 1);
  lua_settop(L, 3);
  return put_usually(L, LUA_OK, 0);
}

/* put(exchange, special) -> a function put(v, output) for the jobs of the worker, which puts v on the channel that it
   is bound to. special(v, output, is_helper, is_older) does it instead while the worker is off, the function is bound
   to no channel, or the output is named; if the channel has refused v, because it is closed; and, with `is_helper`, for
   go blocks other than the worker's own. `is_older`: that go block was started after the worker's own, but before its
   present job began. */
static int worker_put(lua_State *L) {
  check_callable(L, 2, "put");
  lua_settop(L, 2);
  lua_pushvalue(L, SCHED_SELF);
  push_worker(L, 1);
  lua_pushnil(L);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, job_put, UP_SPECIAL);
  return 1;
}

/* bind(put, ch): from now on the function puts on that channel; false or nil: on none. */
static int worker_bind(lua_State *L) {
  luaL_argcheck(L, lua_tocfunction(L, 1) == job_put, 1, "a put function expected");
  if (lua_toboolean(L, 2)) check_chan(L, 2, "put", "bind(put, ch)");
  lua_settop(L, 2);
  lua_setupvalue(L, 1, UP_OUT);
  return 0;
}

/* ---- the state ---- */

/* new(grow) -> the exchange function of a new worker, which is not off. If `grow` is a function, it is called when the
   worker has got a value and no other worker waits for one; it must not wait. If it raises, the value is lost. */
static int worker_new(lua_State *L) {
  bool can_grow = lua_toboolean(L, 1);
  if (can_grow) check_callable(L, 1, "new");
  lua_settop(L, 1);
  lua_pushvalue(L, SCHED_SELF);
  Worker *w = (Worker *)lua_newuserdatauv(L, sizeof(Worker), 0);
  *w = (Worker){.sched = sched_self(L), .can_grow = can_grow};
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, worker_exchange, UP_GROW);
  return 1;
}

/* set_off(exchange, is_off) */
static int worker_set_off(lua_State *L) {
  push_worker(L, 1)->is_off = lua_toboolean(L, 2);
  return 0;
}

/* phase(exchange) -> "job" | "send" | "put" | "take" | "off" */
static int worker_phase(lua_State *L) {
  lua_pushstring(L, phase_names[push_worker(L, 1)->phase]);
  return 1;
}

/* taken(exchange) -> how many values it has got */
static int worker_taken(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)push_worker(L, 1)->taken);
  return 1;
}

/* begin(exchange, [block]): its worker begins a job; `block` becomes its own go block. */
static int worker_begin(lua_State *L) {
  const Chan *block = lua_isnoneornil(L, 2) ? NULL : check_chan(L, 2, "begin", "begin(exchange, block)");
  Worker *w = push_worker(L, 1);
  if (block) w->block = block->id;
  begin_job(w);
  return 0;
}

void lua_worker_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"put", worker_put},     {"bind", worker_bind},   {"new", worker_new},     {"set_off", worker_set_off},
      {"phase", worker_phase}, {"taken", worker_taken}, {"begin", worker_begin}, {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "worker");
}
