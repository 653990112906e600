/* chan_user.c: see chan_user.h. */
#include "core/chan_user.h"

#include <lauxlib.h>

#include "core/anchor.h"
#include "core/error.h"
#include "core/sched.h"

/* The methods of a policy. */
enum Method { FULL, ADD, REMOVE, COUNT, CLOSE };

/* What a callback gets for a take, or a put, that failed. */
enum Instead { NIL_INSTEAD, FALSE_INSTEAD };

/* Where an error in a policy goes: to the caller, by raising; or it stays on the stack. */
enum OnError { RAISE, LEAVE };

/* ---- calling ---- */

/* Calls the function at index `base` + 1 with the arguments above it; the message handler is at `base`, and is replaced by
   the result. Returns false with the error instead. */
static bool call_above(lua_State *L, Chan *ch, int at, int base, const char *what) {
  Sched *S = ch->sched;
  const char *outer = S->inside;
  S->inside = what;
  ch->flags |= CHAN_BUSY;
  int status = lua_pcall(L, lua_gettop(L) - base - 1, 1, base);
  ch->flags &= ~(uint32_t)CHAN_BUSY;
  S->inside = outer;
  lua_replace(L, base);
  if (UNLIKELY(ch->flags & CHAN_CLOSE_LATER)) {
    ch->flags &= ~(uint32_t)CHAN_CLOSE_LATER;
    chan_close(L, ch, at, 0);
  }
  return status == LUA_OK;
}

/* Calls the function and the `nargs` arguments on top of L for one result. Returns false with the error instead. */
static bool call(lua_State *L, Chan *ch, int at, int nargs, const char *what) {
  int base = lua_gettop(L) - nargs;
  lua_getiuservalue(L, SCHED_SELF, SCHED_MSGH);
  lua_insert(L, base);
  return call_above(L, ch, at, base, what);
}

/* Hands the error on top of L to on_error. */
static void report(lua_State *L, int at) {
  error_push_traceback(L);
  lua_pushvalue(L, at);
  error_report(L);
}

/* Raises that a policy is wrong, at the line that uses the channel: below this call there is the channel's function. */
static int bad_policy(lua_State *L, const char *message) {
  luaL_where(L, 2);
  lua_pushstring(L, message);
  lua_concat(L, 2);
  return lua_error(L);
}

/* Raises for a result of a policy that makes no sense. Inside the protected call: there may be no memory for the message. */
static void check_result(lua_State *L, enum Method method) {
  int is_int = 1;
  if (method == COUNT && (lua_tointegerx(L, -1, &is_int) < 0 || !is_int)) {
    bad_policy(L, "the buffer policy's count did not return a non-negative integer");
  }
  if (method == REMOVE && lua_isnil(L, -1)) {
    bad_policy(L, "the buffer policy's remove returned nil although its count is not 0");
  }
}

/* Calls a method of a policy: (method number, policy, value). Inside the protected call, since looking it up may raise. */
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

/* Calls a method of the channel's policy, with the value at index `value` or none (0). Leaves the result and returns
   true; or the error, if it is not raised. */
static bool ask(lua_State *L, Chan *ch, int at, enum Method method, int value, enum OnError on_error) {
  lua_pushcfunction(L, call_method);
  lua_pushinteger(L, method);
  lua_getiuservalue(L, at, CHAN_VALUES);
  if (value) lua_pushvalue(L, value);
  bool ok = call(L, ch, at, value ? 3 : 2, "a buffer policy");
  if (!ok && on_error == RAISE) lua_error(L);
  return ok;
}

void chan_user_prepare(lua_State *L) { luaL_checkstack(L, LUA_MINSTACK, NULL); }

void chan_user_check_busy(lua_State *L, const Chan *ch, int at) {
  /* Twice what closing needs: a policy that is asked may close its channel, and then it is too late to raise. */
  luaL_checkstack(L, 2 * LUA_MINSTACK, NULL);
  if (!(ch->flags & CHAN_BUSY)) return;
  chan_push_name(L, ch, at);
  luaL_error(L, "%s: a transducer or buffer policy must not use the channel that it runs for", lua_tostring(L, -1));
}

/* ---- the buffer of such a channel ---- */

bool chan_user_full(lua_State *L, Chan *ch, int at) {
  if (ch->buf.kind != BUFFER_POLICY) return buffer_full(&ch->buf);
  chan_user_check_busy(L, ch, at);
  ask(L, ch, at, FULL, 0, RAISE);
  bool full = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return full;
}

/* Like chan_user_full on behalf of nobody: a policy that fails has no room. */
static bool has_room(lua_State *L, Chan *ch, int at) {
  if (ch->buf.kind != BUFFER_POLICY) return !buffer_full(&ch->buf);
  if (!ask(L, ch, at, FULL, 0, LEAVE)) {
    report(L, at);
    return false;
  }
  bool full = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return !full;
}

lua_Integer chan_user_count(lua_State *L, Chan *ch, int at) {
  if (ch->buf.kind != BUFFER_POLICY) return (lua_Integer)ch->buf.count;
  chan_user_check_busy(L, ch, at);
  ask(L, ch, at, COUNT, 0, RAISE);
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* Removes the next value and pushes it; or leaves the error and returns false. */
static bool fetch(lua_State *L, Chan *ch, int at, enum OnError on_error) {
  if (ch->buf.kind != BUFFER_POLICY) {
    chan_fetch(L, ch, at);
    return true;
  }
  return ask(L, ch, at, REMOVE, 0, on_error);
}

/* Adds the value at index `value` to the buffer of a busy channel, which nobody else can change meanwhile. */
static void store_busy(lua_State *L, Chan *ch, int at, int value) {
  chan_reserve(L, ch, at);
  chan_store(L, ch, at, value);
}

/* The same, to be called protected: (channel, value). */
static int store_value(lua_State *L) {
  store_busy(L, (Chan *)lua_touserdata(L, 1), 1, 2);
  return 0;
}

/* Adds the value at index `value`; or leaves the error and returns false. */
static bool store(lua_State *L, Chan *ch, int at, int value, enum OnError on_error) {
  bool ok;
  if (ch->buf.kind == BUFFER_POLICY) {
    ok = ask(L, ch, at, ADD, value, on_error);
  } else {
    lua_pushcfunction(L, store_value);
    lua_pushvalue(L, at);
    lua_pushvalue(L, value);
    ok = call(L, ch, at, 2, "a buffer");
  }
  if (ok) lua_pop(L, 1);
  return ok;
}

/* Commits an alt before code of the user's runs on its behalf, and pushes its owner: that code may close the coroutine, and
   nobody else holds a go block that has ended. */
static void claim(lua_State *L, Alt *alt) {
  Sched *S = sched_self(L);
  sched_claim(L, S, alt);
  if (alt == &S->outside) lua_pushnil(L);
  else anchor_push(L, sched_go(alt));
}

/* Wakes an owner with the value on top of L as the result of its take or put, or as the error that it raises. A callback
   has no caller to raise it in: on_error hears of it, and the callback gets `instead` (nil or false) and the error. */
static void deliver(lua_State *L, int at, Alt *alt, int port, bool ok, enum Instead instead) {
  Sched *S = sched_self(L);
  if (UNLIKELY(alt->state == ALT_DEAD)) {
    lua_pop(L, 1);
    return;
  }
  if (!ok && alt->flags & ALT_CALLBACK) {
    lua_pushvalue(L, -1);
    report(L, at);
    if (instead == FALSE_INSTEAD) lua_pushboolean(alt->co, 0);
    else lua_pushnil(alt->co);
    lua_xmove(L, alt->co, 1);
    sched_wake(S, alt, 2);
    return;
  }
  lua_xmove(L, alt->co, 1);
  if (!ok) alt->flags |= ALT_RAISE;
  sched_wake(S, alt, ok ? 1 + chan_push_port(alt->co, alt->flags, port) : 1);
}

/* Serves waiting takes from the buffer, as many as it has values. */
static void serve(lua_State *L, Chan *ch, int at) {
  while (ch->ntakes) {
    lua_Integer n = (lua_Integer)ch->buf.count;
    if (ch->buf.kind == BUFFER_POLICY) {
      if (!ask(L, ch, at, COUNT, 0, LEAVE)) {
        report(L, at);
        return;
      }
      n = lua_tointeger(L, -1);
      lua_pop(L, 1);
    }
    Waiter *w = n > 0 ? chan_first(ch, false) : NULL;
    if (!w) return;
    /* Committed before the policy's code runs: that may do anything to the other channels of an alts. */
    Alt *alt = w->alt;
    int port = w->at;
    claim(L, alt);
    bool ok = fetch(L, ch, at, LEAVE);
    if (ok) ch->take_total++;
    deliver(L, at, alt, port, ok, NIL_INSTEAD);
    lua_pop(L, 1);
  }
}

/* ---- the transducer ---- */

/* Hands the error on top of L to the exception handler, whose result, if not nil, goes into the buffer; or to on_error. */
static void handle_error(lua_State *L, Chan *ch, int at) {
  if (lua_getiuservalue(L, at, CHAN_HANDLER) == LUA_TNIL) {
    lua_pop(L, 1);
    report(L, at);
    return;
  }
  lua_insert(L, -2);
  if (!call(L, ch, at, 1, "an exception handler")) {
    report(L, at);
    return;
  }
  if (!lua_isnil(L, -1) && !store(L, ch, at, lua_gettop(L), LEAVE)) report(L, at);
  lua_pop(L, 1);
}

static bool is_reduced(lua_State *L) {
  if (!lua_getmetatable(L, -1)) return false;
  lua_getiuservalue(L, SCHED_SELF, SCHED_REDUCED);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

/* A transducer has had enough: what waits to be put has been accepted, and is dropped; the channel closes. */
static void reduced(lua_State *L, Chan *ch, int at) {
  Waiter *w;
  while ((w = chan_first(ch, true)) != NULL) {
    ch->put_total++;
    chan_complete_put(L, w, true);
  }
  chan_close(L, ch, at, 0);
}

/* Called protected, since there may be no memory for the message. (what the step function returned) */
static int raise_no_accumulator(lua_State *L) {
  return luaL_error(L, "the transducer's step function returned a %s, not its accumulator: return rf(acc, v), or acc",
                    luaL_typename(L, 1));
}

/* Sends the value at index `value` through the transducer into the buffer. Does not raise. */
static void step(lua_State *L, Chan *ch, int at, int value) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_MSGH);
  lua_getiuservalue(L, at, CHAN_STEP);
  lua_pushvalue(L, at);
  lua_pushvalue(L, value);
  if (!call_above(L, ch, at, lua_gettop(L) - 3, "a transducer")) {
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

void chan_user_finish(lua_State *L, Chan *ch, int at) {
  if (ch->flags & CHAN_FINISHED || !(ch->flags & CHAN_XFORM || ch->buf.kind == BUFFER_POLICY)) return;
  ch->flags |= CHAN_FINISHED;
  if (ch->flags & CHAN_XFORM) {
    lua_getiuservalue(L, at, CHAN_STEP);
    lua_pushvalue(L, at);
    if (call(L, ch, at, 1, "a transducer")) lua_pop(L, 1);
    else handle_error(L, ch, at);
    serve(L, ch, at);
  }
  if (ch->buf.kind == BUFFER_POLICY) {
    if (ask(L, ch, at, CLOSE, 0, LEAVE)) lua_pop(L, 1);
    else report(L, at);
  }
}

int chan_user_add(lua_State *L) {
  int n = lua_gettop(L);
  Chan *ch = (Chan *)lua_touserdata(L, lua_upvalueindex(2));
  if (n == 0) lua_pushvalue(L, lua_upvalueindex(2));
  if (n <= 1) return 1;
  if (lua_isnil(L, 2)) return luaL_error(L, "a transducer produced nil, which a channel cannot hold");
  if (!(ch->flags & CHAN_BUSY)) return luaL_error(L, "the reducing function of a channel works only within a put on it");
  if (ch->buf.kind == BUFFER_POLICY) {
    lua_pushcfunction(L, call_method);
    lua_pushinteger(L, ADD);
    lua_getiuservalue(L, lua_upvalueindex(2), CHAN_VALUES);
    lua_pushvalue(L, 2);
    lua_call(L, 3, 0);
  } else {
    store_busy(L, ch, lua_upvalueindex(2), 2);
  }
  lua_settop(L, 1);
  return 1;
}

/* ---- put and take ---- */

/* Admits the first waiting put, which is `w`. An error of the transducer goes to on_error, whose handler may use the
   channel: what it puts waits its turn, behind the others that are being admitted. */
static void admit(lua_State *L, Chan *ch, int at, Waiter *w) {
  Alt *alt = w->alt;
  int port = w->at, top = lua_gettop(L);
  uint32_t outer = ch->flags & CHAN_ADMITTING;
  ch->flags |= CHAN_ADMITTING;
  claim(L, alt);
  lua_pushvalue(alt->co, port + 1);
  lua_xmove(alt->co, L, 1);
  bool ok = true;
  if (ch->flags & CHAN_XFORM) step(L, ch, at, top + 2);
  else ok = store(L, ch, at, top + 2, LEAVE);
  if (ok) {
    ch->put_total++;
    lua_pushboolean(L, 1);
  }
  deliver(L, at, alt, port, ok, FALSE_INSTEAD);
  lua_settop(L, top);
  ch->flags = (ch->flags & ~(uint32_t)CHAN_ADMITTING) | outer;
}

/* Admits waiting puts while there is room. */
static void admit_all(lua_State *L, Chan *ch, int at) {
  while (ch->nputs && has_room(L, ch, at)) {
    Waiter *w = chan_first(ch, true);
    if (w) admit(L, ch, at, w);
  }
  if (ch->flags & CHAN_CLOSED && !ch->nputs) chan_user_finish(L, ch, at);
}

PutResult chan_user_put(lua_State *L, Chan *ch, int at, int value) {
  if (ch->flags & CHAN_RESULT) {
    luaL_error(L, "put: this is the result channel of a go block, which alone puts on it; make a channel for more values");
  }
  chan_user_check_busy(L, ch, at);
  /* Where a take waits the value goes through, room or not: else the two would wait for each other. */
  bool full = chan_user_full(L, ch, at);
  if (UNLIKELY(ch->flags & CHAN_CLOSED)) return PUT_CLOSED; /* the policy has closed its channel */
  if ((full || (ch->flags & CHAN_ADMITTING && ch->nputs)) && !ch->ntakes) return PUT_WAIT;
  if (ch->flags & CHAN_XFORM) step(L, ch, at, value);
  else store(L, ch, at, value, RAISE);
  ch->put_total++;
  serve(L, ch, at);
  chan_check(ch);
  return PUT_DONE;
}

int chan_user_take(lua_State *L, Chan *ch, int at) {
  chan_user_check_busy(L, ch, at);
  Waiter *w;
  lua_Integer n = chan_user_count(L, ch, at);
  /* Puts that wait although nothing is buffered: a policy that was full when empty, or a transducer that drops. */
  while (n == 0 && (w = chan_first(ch, true)) != NULL) {
    admit(L, ch, at, w);
    n = chan_user_count(L, ch, at);
  }
  if (n == 0 && UNLIKELY(chan_user_unfinished(ch))) {
    chan_user_finish(L, ch, at);
    n = chan_user_count(L, ch, at);
  }
  if (n > 0) {
    fetch(L, ch, at, RAISE);
    ch->take_total++;
    if (ch->nputs) admit_all(L, ch, at);
    chan_check(ch);
    return 1;
  }
  if (!(ch->flags & CHAN_CLOSED)) return TAKE_WAIT;
  lua_pushnil(L);
  return 1 + chan_give_reason(L, ch, at);
}
