/* lua/lua_chan.c: channels in Lua: their constructors and methods. */
#include <string.h>

#include "blocks/async.h"
#include "blocks/go.h"
#include "blocks/park.h"
#include "blocks/timer.h"
#include "channels/chan_custom.h"
#include "errors/unhandled.h"
#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/stats.h"
#include "lua/turn.h"
#include "sim/busy.h"
#include "states/shared_handle.h"
#include "states/shared_ops.h"
#include "tracing/trace.h"
#include "tracing/trace_list.h"

/* The metatable's name, which messages of Lua itself use. */
#define CHAN_TNAME "runnel.chan"

enum { MAX_NAME = 200 };

/* Size of the two tables that are searched at every call: large, so that few of their names collide. */
enum { ROOM_IN_METATABLE = 128, ROOM_FOR_METHODS = 128 };

/* ---- put and take ---- */

/* Raises if the value at index i cannot be put. */
static void check_value(lua_State *L, int i, const char *what) {
  if (UNLIKELY(lua_isnoneornil(L, i))) {
    luaL_error(L,
               "%s: nil cannot be put on a channel, where it means that the channel is closed; put false, or a "
               "value of your own that stands for nothing",
               what);
  }
}

static const Operation TAKE = {.name = "take"};
static const Operation LOOP = {.name = "take", .flags = ALT_LOOP};
static const Operation PUT = {.name = "put", .is_put = true};
static const Operation OFFER = {.name = "offer", .is_put = true};
static const Operation POLL = {.name = "poll"};
static const Operation TAKE_ASYNC = {.name = "take_async"};
static const Operation PUT_ASYNC = {.name = "put_async", .is_put = true};

/* Takes, or waits. */
static ALWAYS_INLINE int take_or_wait(lua_State *L, Chan *ch) {
  int n = chan_take(L, ch, 1);
  return n == TAKE_WAIT ? park_on(L, ch, 1, &TAKE, NULL) : n;
}

/* A take that counts for a turn. */
NOINLINE static int take_slowly(lua_State *L, Chan *ch) {
  turn_count(L, ch, &TAKE);
  return take_or_wait(L, ch);
}

/* ch:take() -> v | nil | nil, err */
static int chan_lua_take(lua_State *L) {
  Chan *ch = check_chan(L, 1, "take", "ch:take()");
  if (!chan_only_fetches(ch)) return turn_counts(ch) ? take_slowly(L, ch) : take_or_wait(L, ch);
  /* A loop that takes what it has put goes round the ring of slots, so only the takes at its end count. */
  if (UNLIKELY(buffer_at_end(&ch->buf))) {
    if (UNLIKELY(ch->sched->moves++ >= TURN)) return take_slowly(L, ch);
    chan_just_fetch(L, ch, 1);
  } else {
    chan_fetch_slot(L, &ch->buf, 1);
    ch->buf.head++;
    ch->buf.count--;
    chan_count_take(ch);
  }
  chan_check(ch);
  return 1;
}

/* The results of a for loop's take: if the channel was closed with an error, the loop ends, and drops it. */
static inline int looped(lua_State *L, int n) {
  if (UNLIKELY(n == 2)) unhandled_drop(L, 1);
  return n;
}

static int loop_resumed(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  return looped(L, park_resumed(L, (Alt *)alt));
}

/* The iterator `ch` of a for loop: a take. The loop drops the error of a closed channel, so that does not count as
   taken. */
static int chan_lua_next(lua_State *L) {
  Chan *ch = check_chan(L, 1, "take", "ch:take()");
  if (chan_only_fetches(ch) ? buffer_at_end(&ch->buf) : turn_counts(ch)) turn_count(L, ch, &LOOP);
  if (chan_only_fetches(ch)) {
    chan_just_fetch(L, ch, 1);
    chan_check(ch);
    return 1;
  }
  uint32_t was_taken = ch->flags & CHAN_ERROR_TAKEN;
  int n = UNLIKELY(chan_is_shared(ch)) ? shared_ops_take(L, ch, 1, true) : chan_take(L, ch, 1);
  if (n == 2 && !was_taken) ch->flags &= ~(uint32_t)CHAN_ERROR_TAKEN;
  if (n == TAKE_WAIT) n = park_on(L, ch, 1, &LOOP, loop_resumed);
  return looped(L, n);
}

/* ch:put(v) -> true | false */
static int chan_lua_put(lua_State *L) {
  Chan *ch = check_chan(L, 1, "put", "ch:put(v)");
  check_value(L, 2, "put");
  if (chan_only_stores(ch)) {
    if (UNLIKELY(lua_gettop(L) != 2)) lua_settop(L, 2); /* it is on top: it is moved without a copy */
    chan_just_store(L, ch, 1);
    chan_check(ch);
    lua_pushboolean(L, 1);
    return 1;
  }
  /* As turn_counts; and a put on a result channel raises. */
  if (UNLIKELY(ch->flags & (CHAN_SPECIAL_PUT | CHAN_ENDLESS))) turn_count(L, ch, &PUT);
  PutResult result = chan_put(L, ch, 1, 2);
  if (LIKELY(result != PUT_WAIT)) {
    lua_pushboolean(L, result == PUT_DONE);
    return 1;
  }
  return park_on(L, ch, 1, &PUT, NULL);
}

/* An offer or a poll comes to nothing. Other threads use a shared channel, even if this one runs no go block. */
static void in_vain(lua_State *L, const Chan *ch, const Operation *op, const char *cure) {
  if (UNLIKELY(ch->sched->is_observed)) trace_vain(ch->sched, ch, op->is_put);
  if (!chan_is_shared(ch)) turn_in_vain(L, ch->sched, op, cure);
}

/* ch:offer(v) -> true | nil (not now) | false (closed) */
static int chan_lua_offer(lua_State *L) {
  Chan *ch = check_chan(L, 1, "offer", "ch:offer(v)");
  check_value(L, 2, "offer");
  turn_count(L, ch, &OFFER);
  PutResult result = chan_put(L, ch, 1, 2);
  if (result != PUT_WAIT) {
    ch->sched->vain = 0;
    lua_pushboolean(L, result == PUT_DONE);
    return 1;
  }
  in_vain(L, ch, &OFFER, "use ch:put(v), which waits for room");
  lua_pushnil(L);
  return 1;
}

/* ch:poll() -> v | nil | nil, err */
static int chan_lua_poll(lua_State *L) {
  Chan *ch = check_chan(L, 1, "poll", "ch:poll()");
  turn_count(L, ch, &POLL);
  int n = chan_take(L, ch, 1);
  if (n != TAKE_WAIT) {
    ch->sched->vain = 0;
    return n;
  }
  in_vain(L, ch, &POLL, "use ch:take(), which waits for a value");
  lua_pushnil(L);
  return 1;
}

/* ---- callbacks ---- */

/* The argument `on_caller` at index `i`; it defaults to true. */
static bool is_on_caller(lua_State *L, int i) { return lua_isnoneornil(L, i) || lua_toboolean(L, i); }

/* ch:take_async(f, on_caller): f(v), or f(nil, err), once there is something to take. */
static int chan_lua_take_async(lua_State *L) {
  Chan *ch = check_looked(L, 1, "take_async", "ch:take_async(f)", LOOK_CHANNEL);
  check_callable(L, 2, "take_async");
  if (turn_counts(ch) || chan_can(ch, false)) turn_count(L, ch, &TAKE_ASYNC);
  bool on_caller = is_on_caller(L, 3);
  lua_settop(L, 2);
  async_begin(L, ch, false, on_caller, false);
  return 0;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* ch:put_async(v, f, on_caller) -> true | false (closed already): f(true) once the put is done, f(false) when
   closed. */
static int chan_lua_put_async(lua_State *L) {
  Chan *ch = check_looked(L, 1, "put_async", "ch:put_async(v, f)", LOOK_CHANNEL);
  check_value(L, 2, "put_async");
  if (turn_counts(ch) || chan_can(ch, true)) turn_count(L, ch, &PUT_ASYNC);
  bool on_caller = is_on_caller(L, 4);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) {
    lua_pushcfunction(L, nothing);
    lua_replace(L, 3);
  }
  check_callable(L, 3, "put_async");
  lua_pushboolean(L, async_begin(L, ch, true, on_caller, false));
  return 1;
}

/* ---- closing ---- */

/* Whether the value at index 2 is the running go block's cancellation. */
static bool is_own_cancellation(lua_State *L, const Sched *S) {
  if (lua_isnoneornil(L, 2) || !S->current) return false;
  root_push(L, S->current);
  return go_is_cancellation(L, lua_gettop(L), 2);
}

/* ch:close(err); also __close(ch, err), when the scope of `local ch <close>` ends, by an error or not. If the error is
   the cancellation of the go block, takers get it, but it is not reported: a cancellation is intended. If the go block
   dies of it, it is taken here or from the result channel. */
static int chan_lua_close(lua_State *L) {
  Chan *ch = check_looked(L, 1, "close", "ch:close(err)", LOOK_CHANNEL);
  if (UNLIKELY(ch->flags & CHAN_TIMEOUT)) {
    return luaL_error(L,
                      "close: a timeout closes by itself; other go blocks may share it, so a program cannot close it");
  }
  if (UNLIKELY((ch->flags & (CHAN_CLOSES_ITSELF | CHAN_CLOSED)) == CHAN_CLOSES_ITSELF)) {
    return luaL_error(L, "close: a channel that done() returns closes when its channel closes; close that channel");
  }
  const Sched *S = ch->sched;
  bool is_new = !lua_isnoneornil(L, 2) && !chan_is_closed(ch);
  bool is_quiet = is_new && is_own_cancellation(L, S);
  chan_close(L, ch, 1, lua_isnoneornil(L, 2) ? 0 : 2);
  if (is_quiet) ch->flags |= CHAN_ERROR_KNOWN; /* no loop that waits for it has run since */
  else if (is_new && S->current && S->current->chan.flags & CHAN_DYING) unhandled_note_closed(L, S, 1);
  return 0;
}

/* ch:closed() -> boolean */
static int chan_lua_closed(lua_State *L) {
  static const Operation closed = {.name = "closed"};
  Chan *ch = check_chan(L, 1, "closed", "ch:closed()");
  turn_count(L, ch, &closed);
  lua_pushboolean(L, chan_is_closed(ch));
  return 1;
}

/* ch:done() -> a channel that closes when ch does, whatever ch still holds. */
static int chan_lua_done(lua_State *L) {
  Chan *ch = check_looked(L, 1, "done", "ch:done()", LOOK_CHANNEL);
  chan_push_done(L, ch, 1);
  return 1;
}

/* ---- inspecting a channel ---- */

/* #ch -> values in the buffer */
static int chan_meta_len(lua_State *L) {
  static const Operation len = {.name = "#"};
  Chan *ch = check_chan(L, 1, "#", "#ch");
  turn_count(L, ch, &len);
  lua_pushinteger(L, chan_count(L, ch, 1));
  return 1;
}

/* Gives the name at index 2 to the go block, or the thread, whose result the channel at index 1 is. */
static void name_go(lua_State *L, const Chan *ch) {
  lua_pushvalue(L, 1);
  if (!(ch->flags & CHAN_GO)) attr_push(L, 1, ATTR_THREAD);
  int at = lua_gettop(L);
  ch = chan_to(L, at);
  if (!ch || !(ch->flags & CHAN_GO)) return;
  lua_pushvalue(L, 2);
  attr_set(L, at, ATTR_GO);
}

/* ch:name(s) -> ch; ch:name() -> s | nil */
static int chan_lua_name(lua_State *L) {
  Chan *ch = check_chan(L, 1, "name", "ch:name(s)");
  if (lua_isnoneornil(L, 2)) {
    attr_push(L, 1, ATTR_NAME);
    return 1;
  }
  if (lua_type(L, 2) != LUA_TSTRING) return luaL_error(L, "name: a string expected, got %s", luaL_typename(L, 2));
  if (lua_rawlen(L, 2) > MAX_NAME) return luaL_error(L, "name: at most %d bytes", MAX_NAME);
  lua_pushvalue(L, 2);
  attr_set(L, 1, ATTR_NAME);
  name_go(L, ch);
  trace_named(L, ch, 1);
  if (chan_is_shared(ch)) shared_ops_set_name(L, ch, lua_tostring(L, 2));
  lua_settop(L, 1);
  return 1;
}

/* ch:stats() -> table */
static int chan_lua_stats(lua_State *L) {
  static const Operation operation = {.name = "stats"};
  Chan *ch = check_chan(L, 1, "stats", "ch:stats()");
  turn_count(L, ch, &operation);
  stats_push(L, ch);
  return 1;
}

/* tostring(ch) -> "chan: jobs (3/10, 2 puts waiting)" */
static int chan_meta_tostring(lua_State *L) {
  Chan *ch = check_looked(L, 1, "tostring", "tostring(ch)", LOOK_CHANNEL);
  luaL_Buffer b;
  ChanStats stats = stats_of(L, ch);
  attr_push_name(L, ch, 1);
  luaL_buffinit(L, &b);
  lua_pushvalue(L, 2);
  luaL_addvalue(&b);
  const char *separator = " (";
  if (stats.kind == BUFFER_POLICY) {
    lua_pushfstring(L, "%s%I", separator, (LUAI_UACINT)stats.count);
    luaL_addvalue(&b);
    separator = ", ";
  } else if (stats.kind != BUFFER_NONE) {
    lua_pushfstring(L, "%s%I/%d", separator, (LUAI_UACINT)stats.count, (int)stats.limit);
    luaL_addvalue(&b);
    separator = ", ";
  }
  const uint32_t waiting[] = {stats.nputs, stats.ntakes};
  static const char *const what[] = {"put", "take"};
  for (int i = 0; i < 2; i++) {
    if (!waiting[i]) continue;
    lua_pushfstring(L, "%s%d %s%s waiting", separator, (int)waiting[i], what[i], waiting[i] == 1 ? "" : "s");
    luaL_addvalue(&b);
    separator = ", ";
  }
  if (stats.closed) {
    luaL_addstring(&b, separator);
    luaL_addstring(&b, "closed");
    separator = ", ";
  }
  if (separator[0] == ',') luaL_addchar(&b, ')');
  luaL_pushresult(&b);
  return 1;
}

/* ---- making one ---- */

/* A buffer that holds n values, or none for n = 0. */
static inline Buffer fixed_buffer(lua_Integer n) {
  return (Buffer){.kind = n ? BUFFER_FIXED : BUFFER_NONE, .limit = (uint32_t)n};
}

/* Whether the argument at index 1, a buffer or a policy, is the buffer of a channel. */
static bool is_in_use(lua_State *L) {
  const Buffer *given = check_buffer(L, 1);
  if (given) return given->label != 0;
  lua_getiuservalue(L, SCHED_SELF, SCHED_ATTRS);
  lua_pushvalue(L, 1);
  bool is = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return is;
}

/* Remembers that the argument at index 1 is in use, if it is a buffer or a policy. May raise. */
static void set_in_use(lua_State *L) {
  if (lua_type(L, 1) != LUA_TTABLE && lua_type(L, 1) != LUA_TUSERDATA) return;
  if (check_buffer(L, 1)) {
    ((Buffer *)lua_touserdata(L, 1))->label = 1;
    return;
  }
  lua_getiuservalue(L, SCHED_SELF, SCHED_ATTRS);
  lua_pushvalue(L, 1);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* The buffer's kind and limit from the argument at index 1. Pushes it if it is a policy object, else nil. */
static Buffer read_buffer(lua_State *L, const char *what) {
  Buffer b = {.kind = BUFFER_NONE};
  lua_pushnil(L);
  switch (lua_type(L, 1)) {
  case LUA_TNIL:
    return b;
  case LUA_TNUMBER: {
    int is_int;
    lua_Integer n = lua_tointegerx(L, 1, &is_int);
    if (!is_int || n < 0) {
      luaL_error(L, "%s: a buffer size is an integer of 0 or more, got %s", what, lua_tostring(L, 1));
    }
    if (n > BUFFER_MAX) luaL_error(L, "%s: a buffer holds at most %d values", what, (int)BUFFER_MAX);
    return fixed_buffer(n);
  }
  default:
    break;
  }
  if (is_in_use(L)) {
    luaL_error(L, "%s: this buffer belongs to another channel; make a new one for each channel", what);
  }
  const Buffer *given = check_buffer(L, 1);
  if (given) return *given;
  static const char *const methods[] = {"full", "add", "remove", "count"};
  const char *got = check_got(L, 1);
  if (lua_type(L, 1) != LUA_TTABLE && lua_type(L, 1) != LUA_TUSERDATA) {
    luaL_error(L, "%s: a buffer size, a buffer, or an object with full, add, remove and count expected, got %s", what,
               got);
  }
  for (int i = 0; i < 4; i++) {
    if (chan_to(L, 1) || lua_getfield(L, 1, methods[i]) == LUA_TNIL) {
      luaL_error(L, "%s: a buffer policy needs the methods full, add, remove and count; this one has no %s", what,
                 methods[i]);
    }
    lua_pop(L, 1);
  }
  b.kind = BUFFER_POLICY;
  lua_pop(L, 1);
  lua_pushvalue(L, 1);
  return b;
}

/* Pushes a channel with the buffer. The policy, the transducer and the exception handler, or nil, are at the given
   indices. */
static int new_chan(lua_State *L, Buffer b, int policy, int xf, int handler) {
  Sched *S = sched_self(L);
  bool has_xf = !lua_isnoneornil(L, xf), has_handler = has_xf && !lua_isnoneornil(L, handler);
  if (has_xf) {
    check_callable(L, xf, "chan: transducer");
    if (has_handler) check_callable(L, handler, "chan: exception handler");
    if (b.kind == BUFFER_NONE) return luaL_error(L, "chan: a transducer needs a buffer; give a size of 1 or more");
  } else if (!lua_isnoneornil(L, handler)) {
    return luaL_error(L, "chan: an exception handler without a transducer would never be called");
  }
  int top = lua_gettop(L);
  bool has_policy = b.kind == BUFFER_POLICY;
  if (has_policy || has_xf)
    chan_custom_new(L, S, b, has_policy ? policy : 0, has_xf ? xf : 0, has_handler ? handler : 0);
  else chan_new_buffered(L, S, b);
  lua_settop(L, top + 1);
  return 1;
}

/* chan(n or buffer, xf, ex_handler) -> ch */
static int core_chan(lua_State *L) {
  if (LIKELY(lua_gettop(L) <= 1 && (lua_isinteger(L, 1) || lua_isnone(L, 1)))) { /* the usual case */
    lua_Integer n = lua_tointeger(L, 1);
    if (LIKELY(n >= 0 && n <= BUFFER_MAX)) {
      chan_new_buffered(L, sched_self(L), fixed_buffer(n));
      return 1;
    }
  }
  lua_settop(L, 3);
  Buffer b = read_buffer(L, "chan");
  new_chan(L, b, 4, 2, 3);
  set_in_use(L);
  return 1;
}

/* shared_chan(n or buffer) -> ch: a channel that other states can share. */
static int core_shared_chan(lua_State *L) {
  check_dot(L);
  if (lua_gettop(L) > 1 && !lua_isnil(L, 2)) {
    return luaL_error(L,
                      "shared_chan: a shared channel has no transducer; put one on a channel of each state, and pipe");
  }
  lua_settop(L, 1);
  if (chan_to(L, 1)) {
    return luaL_error(L, "shared_chan: a size or a buffer expected, got a channel; for a promise, write "
                         "rn.shared_chan(\"promise\")");
  }
  if (lua_type(L, 1) == LUA_TSTRING && strcmp(lua_tostring(L, 1), "promise") == 0) {
    shared_handle_new(L, sched_self(L), BUFFER_PROMISE, 1);
    return 1;
  }
  Buffer b = read_buffer(L, "shared_chan");
  if (b.kind == BUFFER_POLICY) {
    return luaL_error(L, "shared_chan: a buffer policy written in Lua belongs to one state; a fixed, dropping or "
                         "sliding buffer expected");
  }
  shared_handle_new(L, sched_self(L), (BufferKind)b.kind, b.limit);
  set_in_use(L);
  return 1;
}

/* promise_chan(xf, ex_handler) -> ch */
static int core_promise_chan(lua_State *L) {
  lua_settop(L, 2);
  return new_chan(L, (Buffer){.kind = BUFFER_PROMISE, .limit = 1}, 0, 1, 2);
}

/* timeout(ms) -> ch */
static int core_timeout(lua_State *L) {
  int64_t ns = check_ms(L, 1, "timeout");
  if (ns == 0) busy_add(sched_self(L), BUSY_POLL);
  timer_push_timeout(L, sched_self(L), ns);
  OBSERVE(sched_self(L), look, (Chan *)lua_touserdata(L, -1), LOOK_TIMEOUT);
  return 1;
}

/* Pushes the methods of the metatable on top of L, which is popped. */
static void push_methods(lua_State *L) {
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

/* is_chan(v) -> boolean. Compares the methods, not the tag alone: the argument can be anything, and the memory of a
   foreign userdata may be uninitialized, or have been a channel's before. */
static int core_is_chan(lua_State *L) {
  if (lua_gettop(L) > 1) check_dot(L);
  lua_settop(L, 1);
  bool is_chan = lua_isuserdata(L, 1) && lua_getmetatable(L, 1);
  if (is_chan) {
    push_methods(L);
    lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
    push_methods(L);
    is_chan = lua_rawequal(L, -1, -2) && chan_to(L, 1);
  }
  lua_pushboolean(L, is_chan);
  return 1;
}

void lua_chan_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"take", chan_lua_take},
      {"put", chan_lua_put},
      {"offer", chan_lua_offer},
      {"poll", chan_lua_poll},
      {"take_async", chan_lua_take_async},
      {"put_async", chan_lua_put_async},
      {"close", chan_lua_close},
      {"closed", chan_lua_closed},
      {"done", chan_lua_done},
      {"stats", chan_lua_stats},
      {"name", chan_lua_name},
      {NULL, NULL},
  };
  static const luaL_Reg metamethods[] = {
      {"__call", chan_lua_next}, /* for v in ch do */
      {"__close", chan_lua_close}, {"__len", chan_meta_len}, {"__tostring", chan_meta_tostring}, {NULL, NULL},
  };
  static const luaL_Reg functions[] = {
      {"chan", core_chan},       {"shared_chan", core_shared_chan}, {"promise_chan", core_promise_chan},
      {"timeout", core_timeout}, {"is_chan", core_is_chan},         {NULL, NULL},
  };
  module_register(L, functions);
  lua_createtable(L, 0, ROOM_IN_METATABLE);
  lua_pushliteral(L, CHAN_TNAME);
  lua_setfield(L, -2, "__name");
  module_register(L, metamethods);
  lua_createtable(L, 0, ROOM_FOR_METHODS);
  module_register(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "methods");
  lua_setfield(L, -2, "__index");
  lua_setiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
}
