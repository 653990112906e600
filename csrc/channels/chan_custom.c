/* chan_custom.c: see chan_custom.h. */
#include "channels/chan_custom.h"

#include <lauxlib.h>

#include "channels/alt.h"
#include "core/attr.h"
#include "core/observe.h"
#include "errors/error.h"
#include "lifetimes/root.h"

/* The methods of a policy. */
enum Method { FULL, ADD, REMOVE, COUNT, CLOSE };

/* What to do with an error in a policy: raise it, leave it on the stack, or report it. */
enum OnError { RAISE, LEAVE, REPORT };

static inline CustomChan *custom(Chan *ch) { return CONTAINER_OF(ch, CustomChan, chan); }

/* ---- calling ---- */

/* Calls the function below the `nargs` arguments on top of L for one result. Returns false if that is an error. */
static bool call(lua_State *L, Chan *ch, int at, int nargs, const char *what) {
  custom(ch)->is_busy = true;
  bool ok = error_pcall(L, nargs, 1, what);
  custom(ch)->is_busy = false;
  if (UNLIKELY(custom(ch)->closes_later)) {
    custom(ch)->closes_later = false;
    chan_close(L, ch, at, 0);
  }
  return ok;
}

/* Raises an error about a policy, at the line that uses the channel: level 1 is the channel's own function. */
static int bad_policy(lua_State *L, const char *message) {
  luaL_where(L, 2);
  lua_pushstring(L, message);
  lua_concat(L, 2);
  return lua_error(L);
}

/* Raises if a method's result is invalid. Called in protected mode, since the message needs memory. */
static void check_result(lua_State *L, enum Method method) {
  int is_int = 1;
  if (method == COUNT && (lua_tointegerx(L, -1, &is_int) < 0 || !is_int)) {
    bad_policy(L, "the buffer policy's count did not return a non-negative integer");
  }
  if (method == REMOVE && lua_isnil(L, -1)) {
    bad_policy(L, "the buffer policy's remove returned nil although its count is not 0");
  }
}

/* Protected, since the look-up of a method may raise: (method number, policy, value) -> the method's result. */
static int call_method(lua_State *L) {
  static const char *const names[] = {"full", "add", "remove", "count", "close"};
  enum Method method = (enum Method)lua_tointeger(L, 1);
  const char *name = names[method];
  int type = lua_getfield(L, 2, name);
  if (type == LUA_TNIL && method == CLOSE) return 0;
  if (type == LUA_TNIL) return bad_policy(L, lua_pushfstring(L, "the buffer policy has no method '%s'", name));
  lua_replace(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  check_result(L, method);
  return 1;
}

/* Calls a method of the policy, with the value at index `value`, or none (0). Pushes the result and returns true. After
   an error returns false, and with LEAVE pushes the error; or raises it, or reports it. */
static bool ask(lua_State *L, Chan *ch, int at, enum Method method, int value, enum OnError on_error) {
  lua_pushcfunction(L, call_method);
  lua_pushinteger(L, method);
  lua_getiuservalue(L, at, CHAN_VALUES);
  if (value) lua_pushvalue(L, value);
  bool ok = call(L, ch, at, value ? 3 : 2, "a buffer policy");
  if (!ok && on_error == RAISE) lua_error(L);
  if (!ok && on_error == REPORT) error_report_of(L, at);
  return ok;
}

void chan_custom_check_busy(lua_State *L, const Chan *ch, int at) {
  /* Twice the room that a close needs: a policy may close its channel while it runs, when raising is too late. */
  luaL_checkstack(L, 2 * LUA_MINSTACK, NULL);
  if (!chan_custom(ch) || !chan_custom(ch)->is_busy) return;
  attr_push_name(L, ch, at);
  luaL_error(L, "%s: a transducer or buffer policy must not use the channel that it runs for", lua_tostring(L, -1));
}

/* ---- the buffer of such a channel ---- */

/* Whether a put must wait. With REPORT it must after an error in the policy. */
static bool is_full(lua_State *L, Chan *ch, int at, enum OnError on_error) {
  if (ch->buf.kind != BUFFER_POLICY) return buffer_full(&ch->buf);
  if (!ask(L, ch, at, FULL, 0, on_error)) return true;
  bool full = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return full;
}

/* The number of values. With REPORT 0 after an error in the policy. */
static lua_Integer size(lua_State *L, Chan *ch, int at, enum OnError on_error) {
  if (ch->buf.kind != BUFFER_POLICY) return (lua_Integer)ch->buf.count;
  if (!ask(L, ch, at, COUNT, 0, on_error)) return 0;
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static lua_Integer count(lua_State *L, Chan *ch, int at) {
  if (ch->buf.kind == BUFFER_POLICY) chan_custom_check_busy(L, ch, at);
  return size(L, ch, at, RAISE);
}

/* Removes and pushes the next value. Handles errors as `ask` does. */
static bool fetch(lua_State *L, Chan *ch, int at, enum OnError on_error) {
  if (ch->buf.kind != BUFFER_POLICY) {
    chan_fetch(L, ch, at);
    return true;
  }
  return ask(L, ch, at, REMOVE, 0, on_error);
}

/* Commits an alt before user code runs for it, and pushes its go block (or nil): that code may close the coroutine,
   which ends the go block, and then nothing else keeps it alive. */
static void commit(lua_State *L, Alt *alt) {
  Sched *S = sched_self(L);
  alt_commit(L, S, alt);
  if (alt == &S->outside) lua_pushnil(L);
  else root_push(L, sched_go(alt));
}

/* Wakes the owner of a committed alt with the value on top of L, which is popped: its result; or, without `ok`, the
   error that it raises. A callback cannot raise: that reports the error, and gets it after false (a put) or nil. */
static void deliver(lua_State *L, int at, Alt *alt, int port, bool ok, bool is_put) {
  Sched *S = sched_self(L);
  if (UNLIKELY(alt->state == ALT_DEAD)) {
    lua_pop(L, 1);
    return;
  }
  if (!ok && alt->flags & ALT_CALLBACK) {
    lua_pushvalue(L, -1);
    error_report_of(L, at);
    if (is_put) lua_pushboolean(alt->co, 0);
    else lua_pushnil(alt->co);
    lua_xmove(L, alt->co, 1);
    alt_wake(S, alt, 2);
    return;
  }
  lua_xmove(L, alt->co, 1);
  if (!ok) alt->flags |= ALT_RAISE;
  alt_wake(S, alt, ok ? 1 + alt_push_port(alt->co, alt->flags, port) : 1);
}

/* Completes waiting takes while the buffer has values. */
static void serve(lua_State *L, Chan *ch, int at) {
  while (ch->waiting[TAKES]) {
    Waiter *w = size(L, ch, at, REPORT) > 0 ? chan_first_waiter(ch, TAKES) : NULL;
    if (!w) return;
    /* Commits first: the policy may use the other channels of an alts. */
    Alt *alt = w->alt;
    int port = w->at;
    commit(L, alt);
    bool ok = fetch(L, ch, at, LEAVE);
    if (ok) ch->take_total++;
    if (ok && alt->state != ALT_DEAD) OBSERVE(ch->sched, serve, ch, alt);
    deliver(L, at, alt, port, ok, false);
    lua_pop(L, 1);
  }
}

/* ---- the transducer ---- */

/* Called in protected mode, while the channel is busy: adds the value at index `value` to the buffer. */
static void add_value(lua_State *L, Chan *ch, int at, int value) {
  if (ch->buf.kind == BUFFER_POLICY) {
    lua_pushcfunction(L, call_method);
    lua_pushinteger(L, ADD);
    lua_getiuservalue(L, at, CHAN_VALUES);
    lua_pushvalue(L, value);
    lua_call(L, 3, 0);
  } else {
    chan_reserve(L, ch, at);
    chan_store(L, ch, at, value);
  }
}

/* Protected: (channel, error): calls the exception handler and adds its result, unless it is nil, to the buffer. */
static int call_handler(lua_State *L) {
  lua_getiuservalue(L, 1, CHAN_HANDLER);
  lua_insert(L, 2);
  lua_call(L, 1, 1);
  if (!lua_isnil(L, 2)) add_value(L, (Chan *)lua_touserdata(L, 1), 1, 2);
  return 0;
}

/* Calls the exception handler with the error on top of L, which is popped; reports the error if there is no handler. */
static void handle_error(lua_State *L, Chan *ch, int at) {
  int err = lua_gettop(L);
  if (lua_getiuservalue(L, at, CHAN_HANDLER) == LUA_TNIL) {
    lua_pop(L, 1);
    error_report_of(L, at);
    return;
  }
  lua_pushcfunction(L, call_handler);
  lua_pushvalue(L, at);
  lua_pushvalue(L, err);
  if (!call(L, ch, at, 2, "an exception handler")) error_report_of(L, at);
  lua_settop(L, err - 1);
}

/* Whether the value on top of L is a reduced value. */
static bool is_reduced(lua_State *L) {
  if (!lua_getmetatable(L, -1)) return false;
  lua_getiuservalue(L, SCHED_SELF, SCHED_REDUCED);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

/* The transducer has returned a reduced value: accepts the waiting puts, drops their values, and closes the channel. */
static void reduced(lua_State *L, Chan *ch, int at) {
  Waiter *w;
  while ((w = chan_first_waiter(ch, PUTS)) != NULL) {
    ch->put_total++;
    chan_complete_put(L, w, true);
    OBSERVE(ch->sched, admit, ch, w->alt);
  }
  chan_close(L, ch, at, 0);
}

/* Protected, since the message needs memory: (result of the step function). */
static int raise_no_accumulator(lua_State *L) {
  return luaL_error(L, "the transducer's step function returned a %s, not its accumulator: return rf(acc, v), or acc",
                    luaL_typename(L, 1));
}

/* Sends the value at index `value` through the transducer into the buffer. Does not raise. */
static void step(lua_State *L, Chan *ch, int at, int value) {
  lua_getiuservalue(L, at, CHAN_STEP);
  lua_pushvalue(L, at);
  lua_pushvalue(L, value);
  if (!call(L, ch, at, 2, "a transducer")) {
    handle_error(L, ch, at);
  } else if (LIKELY(lua_touserdata(L, -1) == ch)) {
    lua_pop(L, 1);
  } else if (is_reduced(L)) {
    lua_pop(L, 1);
    reduced(L, ch, at);
  } else {
    lua_pushcfunction(L, raise_no_accumulator);
    lua_insert(L, -2);
    call(L, ch, at, 1, "a transducer");
    handle_error(L, ch, at);
  }
}

/* Runs the transducer's completion, which may still add values, and calls the policy's close; once only, when the
   channel is closed and no put waits. Does not raise. */
static void finish(lua_State *L, Chan *ch, int at) {
  if (custom(ch)->is_finished) return;
  custom(ch)->is_finished = true;
  if (custom(ch)->has_xform) {
    lua_getiuservalue(L, at, CHAN_STEP);
    lua_pushvalue(L, at);
    if (call(L, ch, at, 1, "a transducer")) lua_pop(L, 1);
    else handle_error(L, ch, at);
    serve(L, ch, at);
  }
  if (ch->buf.kind == BUFFER_POLICY) {
    if (ask(L, ch, at, CLOSE, 0, REPORT)) lua_pop(L, 1);
  }
}

/* The innermost reducing function of a channel's transducer: rf() and rf(acc) return the accumulator, rf(acc, v) adds v
   to the buffer. Upvalues: the scheduler, the channel. */
static int add(lua_State *L) {
  int n = lua_gettop(L);
  Chan *ch = (Chan *)lua_touserdata(L, lua_upvalueindex(2));
  if (n == 0) lua_pushvalue(L, lua_upvalueindex(2));
  if (n <= 1) return 1;
  if (lua_isnil(L, 2)) return luaL_error(L, "a transducer produced nil, which a channel cannot hold");
  if (!custom(ch)->is_busy) {
    return luaL_error(L, "the reducing function of a channel works only within a put on it");
  }
  add_value(L, ch, lua_upvalueindex(2), 2);
  lua_settop(L, 1);
  return 1;
}

/* ---- put and take ---- */

/* Adds the value of the first waiting put, `w`, to the buffer and completes it. An error in the transducer goes to
   on_error, whose handler may use the channel: its puts are enqueued behind the puts that are being admitted. */
static void admit(lua_State *L, Chan *ch, int at, Waiter *w) {
  Alt *alt = w->alt;
  int port = w->at, top = lua_gettop(L);
  bool outer = custom(ch)->is_admitting;
  custom(ch)->is_admitting = true;
  commit(L, alt);
  alt_push_value(L, w);
  bool ok = true;
  if (custom(ch)->has_xform) step(L, ch, at, top + 2);
  else ok = ask(L, ch, at, ADD, top + 2, LEAVE);
  if (ok) {
    ch->put_total++;
    if (alt->state != ALT_DEAD) OBSERVE(ch->sched, admit, ch, alt);
    lua_pushboolean(L, 1);
  }
  deliver(L, at, alt, port, ok, true);
  lua_settop(L, top);
  custom(ch)->is_admitting = outer;
}

/* Admits waiting puts while there is room. */
static void admit_all(lua_State *L, Chan *ch, int at) {
  while (ch->waiting[PUTS] && !is_full(L, ch, at, REPORT)) {
    Waiter *w = chan_first_waiter(ch, PUTS);
    if (w) admit(L, ch, at, w);
  }
  if (ch->flags & CHAN_CLOSED && !ch->waiting[PUTS]) finish(L, ch, at);
}

static PutResult put(lua_State *L, Chan *ch, int at, int value) {
  chan_custom_check_busy(L, ch, at);
  /* If a take waits the put completes, room or not: else the two would wait for each other. */
  bool full = is_full(L, ch, at, RAISE);
  if (UNLIKELY(ch->flags & CHAN_CLOSED)) return PUT_CLOSED; /* the policy has closed its channel */
  if ((full || (custom(ch)->is_admitting && ch->waiting[PUTS])) && !ch->waiting[TAKES]) return PUT_WAIT;
  if (custom(ch)->has_xform) step(L, ch, at, value);
  else (void)ask(L, ch, at, ADD, value, RAISE), lua_pop(L, 1);
  ch->put_total++;
  serve(L, ch, at);
  chan_check(ch);
  OBSERVE(ch->sched, put, L, ch, at, value, NULL);
  return PUT_DONE;
}

static int take(lua_State *L, Chan *ch, int at) {
  chan_custom_check_busy(L, ch, at);
  Waiter *w;
  lua_Integer n = size(L, ch, at, RAISE);
  /* Puts may wait although no value is buffered: the policy was full when empty, or the transducer drops values. */
  while (n == 0 && (w = chan_first_waiter(ch, PUTS)) != NULL) {
    admit(L, ch, at, w);
    n = size(L, ch, at, RAISE);
  }
  if (n == 0 && UNLIKELY(ch->flags & CHAN_CLOSED && !custom(ch)->is_finished)) {
    finish(L, ch, at); /* the last waiting put belonged to an alts that has withdrawn it since the close */
    n = size(L, ch, at, RAISE);
  }
  if (n > 0) {
    fetch(L, ch, at, RAISE);
    ch->take_total++;
    OBSERVE(ch->sched, take, ch, NULL);
    if (ch->waiting[PUTS]) admit_all(L, ch, at);
    chan_check(ch);
    return 1;
  }
  if (!(ch->flags & CHAN_CLOSED)) return TAKE_WAIT;
  lua_pushnil(L);
  return 1 + attr_take_reason(L, ch, at);
}

/* Closes now; or, if the channel's own policy or transducer closes it, when that code returns. */
static void close_chan(lua_State *L, Chan *ch, int at, int reason) {
  if (custom(ch)->closes_later) return;
  luaL_checkstack(L, LUA_MINSTACK, NULL);    /* closing must not stop half way */
  (void)chan_close_begin(L, ch, at, reason); /* of a channel that is no go block it allocates nothing */
  if (custom(ch)->is_busy) {
    custom(ch)->closes_later = true;
    return;
  }
  chan_close_puts(L, ch);
  if (!ch->waiting[PUTS]) finish(L, ch, at);
  chan_close_end(L, ch, at);
}

static bool can(lua_State *L, Chan *ch, int at, bool is_put) {
  if (ch->buf.kind != BUFFER_POLICY) return chan_can(ch, is_put);
  if (ch->flags & CHAN_CLOSED || ch->waiting[!is_put]) return true;
  chan_custom_check_busy(L, ch, at);
  return is_put ? !is_full(L, ch, at, RAISE) : size(L, ch, at, RAISE) > 0;
}

static bool is_closed(const Chan *ch) { return chan_custom(ch)->closes_later; }

static bool is_checked(const Chan *ch) { /* uncovered: for assertions; only a policy knows its count */
  const CustomChan *c = chan_custom(ch);
  return ch->buf.kind < BUFFER_POLICY && !c->is_admitting && !(c->has_xform && ch->buf.count > ch->buf.limit);
}

const ChanOps chan_custom_ops = {
    put, take, close_chan, .count = count, .can = can, .is_closed = is_closed, .is_checked = is_checked};

/* ---- making a channel ---- */

/* Gives a channel the transducer at index `xf`. */
static void transduce(lua_State *L, CustomChan *c, int at, int xf) {
  lua_pushvalue(L, xf);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushvalue(L, at);
  lua_pushcclosure(L, add, 2);
  lua_call(L, 1, 1);
  if (luaL_getmetafield(L, -1, "__call") != LUA_TNIL) {
    lua_pop(L, 1);
  } else if (!lua_isfunction(L, -1)) {
    luaL_error(L, "chan: the transducer returned a %s instead of a reducing function", luaL_typename(L, -1));
  }
  lua_setiuservalue(L, at, CHAN_STEP);
  c->has_xform = true;
}

void chan_custom_new(lua_State *L, Sched *S, Buffer b, int policy, int xf, int handler) {
  int nuvalues = CHAN_HANDLER;
  if (!policy && b.limit <= CHAN_INLINE) {
    b.size = b.limit;
    b.base = CHAN_HANDLER + 1;
    nuvalues = CHAN_HANDLER + (int)b.limit;
  }
  Chan *ch = chan_new(L, S, sizeof(CustomChan), nuvalues);
  int at = lua_gettop(L);
  *custom(ch) = (CustomChan){.chan = *ch};
  ch->buf = b;
  ch->ops = &chan_custom_ops;
  ch->flags = CHAN_SPECIAL;
  observe_birth(L, S, at);
  if (policy) {
    lua_pushvalue(L, policy);
    lua_setiuservalue(L, at, CHAN_VALUES);
  }
  if (handler) {
    lua_pushvalue(L, handler);
    lua_setiuservalue(L, at, CHAN_HANDLER);
  }
  if (xf) transduce(L, custom(ch), at, xf);
}
