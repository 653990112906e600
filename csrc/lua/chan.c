/* lua/chan.c: channels as Lua sees them: their constructor and methods. */
#include "core/chan_user.h"
#include "core/go.h"
#include "core/keep.h"
#include "core/error.h"
#include "core/timeout.h"
#include "lua/face.h"

/* The metatable's name, as in messages of Lua's own. */
#define CHAN_TNAME "runnel.chan"

enum { MAX_NAME = 200 };

/* ---- put, take and their kin ---- */

/* Raises for a value that cannot be put. */
static void check_value(lua_State *L, int i, const char *what) {
  if (UNLIKELY(lua_isnoneornil(L, i))) {
    luaL_error(L, "%s: nil cannot be put on a channel, where it means that the channel is closed; put false, or a value "
               "of your own that stands for nothing", what);
  }
}

/* Parks the caller, or waits outside, in a single operation on the channel at index 1. */
static int wait_single(lua_State *L, Chan *ch, const char *what, bool is_put) {
  Alt *alt = sched_waiter(L, ch->sched, what);
  if (UNLIKELY(!chan_has_room(ch, is_put))) return chan_no_room(L, ch, 1, is_put);
  keep_channel(L, ch, 1);
  chan_wait_alone(ch, alt, 1, is_put);
  return sched_wait(L, ch->sched, alt, what, NULL);
}

/* ch:take() -> v | nil | nil, err */
static int chan_lua_take(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "take", "ch:take()");
  int n = chan_take(L, ch, 1);
  if (n != TAKE_WAIT) return n;
  return wait_single(L, ch, "take", false);
}

/* The iterator `ch` of a for loop: a take. The loop drops the error of a closed channel, so the error stays untaken. */
static int chan_lua_next(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "take", "ch:take()");
  uint32_t heard = ch->flags & CHAN_ERROR_TAKEN;
  int n = chan_take(L, ch, 1);
  if (n == 2 && !heard) ch->flags &= ~(uint32_t)CHAN_ERROR_TAKEN;
  if (n != TAKE_WAIT) return n;
  Alt *alt = sched_waiter(L, ch->sched, "take");
  if (UNLIKELY(!chan_has_room(ch, false))) return chan_no_room(L, ch, 1, false);
  keep_channel(L, ch, 1);
  chan_wait_alone(ch, alt, 1, false);
  alt->flags |= ALT_LOOP;
  return sched_wait(L, ch->sched, alt, "take", NULL);
}

/* ch:put(v) -> true | false */
static int chan_lua_put(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "put", "ch:put(v)");
  check_value(L, 2, "put");
  PutResult result = chan_put(L, ch, 1, 2);
  if (LIKELY(result != PUT_WAIT)) {
    lua_pushboolean(L, result == PUT_DONE);
    return 1;
  }
  return wait_single(L, ch, "put", true);
}

/* ch:offer(v) -> true | nil (not now) | false (closed) */
static int chan_lua_offer(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "offer", "ch:offer(v)");
  check_value(L, 2, "offer");
  PutResult result = chan_put(L, ch, 1, 2);
  if (result == PUT_WAIT) lua_pushnil(L);
  else lua_pushboolean(L, result == PUT_DONE);
  return 1;
}

/* ch:poll() -> v | nil | nil, err */
static int chan_lua_poll(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "poll", "ch:poll()");
  int n = chan_take(L, ch, 1);
  if (n != TAKE_WAIT) return n;
  lua_pushnil(L);
  return 1;
}

/* ---- callbacks ---- */

enum { MAX_NESTED = 8 };

/* What a callback is called in messages. One of these for each that runs within another: a callback that takes again
   may be called on the caller a few times over, and then by the scheduler, or the C stack would end. */
static const char A_CALLBACK[MAX_NESTED][11] = {"a callback", "a callback", "a callback", "a callback",
                                                "a callback", "a callback", "a callback", "a callback"};

/* How many callbacks run within one another now. */
static int nested(const Sched *S) {
  for (int i = 0; i < MAX_NESTED; i++) {
    if (S->inside == A_CALLBACK[i]) return i + 1;
  }
  return 0;
}

/* Calls the callback at index `f` with the `n` values on top of L, now and protected. */
static void call_now(lua_State *L, Chan *ch, int f, int n) {
  lua_pushvalue(L, f);
  lua_insert(L, -n - 1);
  error_call(L, n, A_CALLBACK[nested(ch->sched)], 1);
}

static bool is_on_caller(lua_State *L, const Sched *S, int i) {
  return (lua_isnoneornil(L, i) || lua_toboolean(L, i)) && (LIKELY(!S->inside) || nested(S) < MAX_NESTED);
}

/* A coroutine that will run a callback has the channel here on its stack (and a value to put behind it). */
enum { CALLBACK_CHAN = 2 };

/* Queues an operation whose callback will run in `go`. */
static void wait_for_callback(lua_State *L, Chan *ch, Go *go, bool is_put) {
  sched_claim(L, ch->sched, &go->alt);
  chan_wait_alone(ch, &go->alt, CALLBACK_CHAN, is_put);
  chan_check(ch);
}

/* ch:take_async(f, on_caller): f(v), or f(nil, err), once there is something to take. */
static int chan_lua_take_async(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "take_async", "ch:take_async(f)");
  face_check_callable(L, 2, "take_async");
  bool on_caller = is_on_caller(L, ch->sched, 3);
  int n;
  if (on_caller && (n = chan_take(L, ch, 1)) != TAKE_WAIT) {
    call_now(L, ch, 2, n);
    return 0;
  }
  if (!chan_has_room(ch, false)) return chan_no_room(L, ch, 1, false);
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  Go *go = go_spawn_waiting(L, ch->sched, 2);
  /* Looked at again, since making it may have run finalizers. */
  if ((n = chan_take(L, ch, 1)) != TAKE_WAIT) {
    lua_xmove(L, go->alt.co, n);
    sched_commit(L, ch->sched, &go->alt, n);
  } else {
    if (!chan_has_room(ch, false)) return chan_no_room(L, ch, 1, false);
    wait_for_callback(L, ch, go, false);
  }
  return 0;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* ch:put_async(v, f, on_caller) -> true | false (closed already): f(true) once the put is done, f(false) when
   closed. */
static int chan_lua_put_async(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "put_async", "ch:put_async(v, f)");
  check_value(L, 2, "put_async");
  if (lua_isnoneornil(L, 3)) {
    lua_settop(L, lua_gettop(L) < 3 ? 3 : lua_gettop(L));
    lua_pushcfunction(L, nothing);
    lua_replace(L, 3);
  }
  face_check_callable(L, 3, "put_async");
  bool on_caller = is_on_caller(L, ch->sched, 4);
  PutResult result;
  if (on_caller && (result = chan_put(L, ch, 1, 2)) != PUT_WAIT) {
    lua_pushboolean(L, result == PUT_DONE);
    call_now(L, ch, 3, 1);
    lua_pushboolean(L, result == PUT_DONE);
    return 1;
  }
  if (!chan_has_room(ch, true)) return chan_no_room(L, ch, 1, true);
  lua_settop(L, 3);
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, i);
  Go *go = go_spawn_waiting(L, ch->sched, 3);
  /* Looked at again, as in take_async. */
  if ((result = chan_put(L, ch, 1, 2)) == PUT_WAIT) {
    if (!chan_has_room(ch, true)) return chan_no_room(L, ch, 1, true);
    wait_for_callback(L, ch, go, true);
    result = PUT_DONE;
  } else {
    lua_pushboolean(go->alt.co, result == PUT_DONE);
    sched_commit(L, ch->sched, &go->alt, 1);
  }
  lua_pushboolean(L, result == PUT_DONE);
  return 1;
}

/* ---- closing ---- */

/* ch:close(err), and __close(ch, err): the scope of `local ch <close>` has ended, by an error or not. */
static int chan_lua_close(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "close", "ch:close(err)");
  if (UNLIKELY(ch->flags & CHAN_TIMEOUT)) {
    return luaL_error(L, "close: a timeout closes by itself, and others who asked for about the same time share it");
  }
  if (UNLIKELY((ch->flags & (CHAN_DONE | CHAN_CLOSED)) == CHAN_DONE)) {
    return luaL_error(L, "close: a channel of done() closes with the channel that it was asked from; close that one");
  }
  chan_close(L, ch, 1, lua_isnoneornil(L, 2) ? 0 : 2);
  return 0;
}

/* ch:closed() -> boolean */
static int chan_lua_closed(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "closed", "ch:closed()");
  lua_pushboolean(L, (ch->flags & (CHAN_CLOSED | CHAN_CLOSE_LATER)) != 0);
  return 1;
}

/* ch:done() -> a channel that closes when ch does, whatever ch still holds. */
static int chan_lua_done(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "done", "ch:done()");
  chan_push_done(L, ch, 1);
  return 1;
}

/* ---- looking at a channel ---- */

/* #ch -> values in the buffer */
static int chan_meta_len(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "#", "#ch");
  lua_pushinteger(L, chan_count(L, ch, 1));
  return 1;
}

static const char *const KINDS[] = {"none", "fixed", "dropping", "sliding", "promise", "policy"};

static void set_integer(lua_State *L, const char *key, lua_Integer n) {
  lua_pushinteger(L, n);
  lua_setfield(L, -2, key);
}

/* ch:stats() -> table */
static int chan_lua_stats(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "stats", "ch:stats()");
  lua_Integer count = chan_count(L, ch, 1);
  lua_createtable(L, 0, 10);
  chan_extra(L, 1, EXTRA_NAME);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, KINDS[ch->buf.kind]);
  lua_setfield(L, -2, "buffer");
  lua_pushboolean(L, (ch->flags & CHAN_CLOSED) != 0);
  lua_setfield(L, -2, "closed");
  set_integer(L, "id", (lua_Integer)ch->id);
  set_integer(L, "puts", ch->nputs);
  set_integer(L, "takes", ch->ntakes);
  set_integer(L, "count", count);
  set_integer(L, "capacity", ch->buf.limit);
  set_integer(L, "put_total", (lua_Integer)ch->put_total);
  set_integer(L, "take_total", (lua_Integer)ch->take_total);
  return 1;
}

/* ch:name(s) -> ch; ch:name() -> s | nil */
static int chan_lua_name(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "name", "ch:name(s)");
  (void)ch;
  if (lua_isnoneornil(L, 2)) {
    chan_extra(L, 1, EXTRA_NAME);
    return 1;
  }
  if (lua_type(L, 2) != LUA_TSTRING) return luaL_error(L, "name: a string expected, got %s", luaL_typename(L, 2));
  if (lua_rawlen(L, 2) > MAX_NAME) return luaL_error(L, "name: at most %d bytes", MAX_NAME);
  lua_pushvalue(L, 2);
  chan_set_extra(L, 1, EXTRA_NAME);
  lua_settop(L, 1);
  return 1;
}

/* tostring(ch) -> "chan: jobs (3/10, 2 puts waiting)" */
static int chan_meta_tostring(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "tostring", "tostring(ch)");
  luaL_Buffer b;
  lua_Integer count = chan_count(L, ch, 1);
  chan_push_name(L, ch, 1);
  luaL_buffinit(L, &b);
  lua_pushvalue(L, 2);
  luaL_addvalue(&b);
  const char *separator = " (";
  if (ch->buf.kind == BUFFER_POLICY) {
    lua_pushfstring(L, "%s%I", separator, (LUAI_UACINT)count);
    luaL_addvalue(&b);
    separator = ", ";
  } else if (ch->buf.kind != BUFFER_NONE) {
    lua_pushfstring(L, "%s%I/%d", separator, (LUAI_UACINT)count, (int)ch->buf.limit);
    luaL_addvalue(&b);
    separator = ", ";
  }
  const uint32_t waiting[] = {ch->nputs, ch->ntakes};
  static const char *const what[] = {"put", "take"};
  for (int i = 0; i < 2; i++) {
    if (!waiting[i]) continue;
    lua_pushfstring(L, "%s%d %s%s waiting", separator, (int)waiting[i], what[i], waiting[i] == 1 ? "" : "s");
    luaL_addvalue(&b);
    separator = ", ";
  }
  if (ch->flags & CHAN_CLOSED) {
    luaL_addstring(&b, separator);
    luaL_addstring(&b, "closed");
    separator = ", ";
  }
  if (separator[0] == ',') luaL_addchar(&b, ')');
  luaL_pushresult(&b);
  return 1;
}

/* ---- making one ---- */

/* The buffer's kind and limit from the argument at index 1, and its policy object, if it is one, pushed, else nil. */
static Buffer check_buffer(lua_State *L) {
  Buffer b = {.kind = BUFFER_NONE};
  lua_pushnil(L);
  switch (lua_type(L, 1)) {
    case LUA_TNIL:
      return b;
    case LUA_TNUMBER: {
      int is_int;
      lua_Integer n = lua_tointegerx(L, 1, &is_int);
      if (!is_int || n < 0) luaL_error(L, "chan: a buffer size is an integer of 0 or more, got %s", lua_tostring(L, 1));
      if (n > BUFFER_MAX) luaL_error(L, "chan: a buffer holds at most %d values", (int)BUFFER_MAX);
      b.kind = n ? BUFFER_FIXED : BUFFER_NONE;
      b.limit = (uint32_t)n;
      return b;
    }
    default:
      break;
  }
  const Buffer *given = face_to_buffer(L, 1);
  if (given) return *given;
  static const char *const methods[] = {"full", "add", "remove", "count"};
  if (lua_type(L, 1) != LUA_TTABLE && lua_type(L, 1) != LUA_TUSERDATA) {
    luaL_error(L, "chan: a buffer size, a buffer, or an object with full, add, remove and count expected, got %s",
               luaL_typename(L, 1));
  }
  for (int i = 0; i < 4; i++) {
    if (face_to_chan(L, 1) || lua_getfield(L, 1, methods[i]) == LUA_TNIL) {
      luaL_error(L, "chan: a buffer policy needs the methods full, add, remove and count; this one has no %s", methods[i]);
    }
    lua_pop(L, 1);
  }
  b.kind = BUFFER_POLICY;
  lua_pop(L, 1);
  lua_pushvalue(L, 1);
  return b;
}

/* Makes a channel with the buffer; the policy or nil, and transducer and exception handler (or nil) are at the
   indices. */
static int new_chan(lua_State *L, Buffer b, int policy, int xf, int handler) {
  Sched *S = sched_self(L);
  bool has_xf = !lua_isnoneornil(L, xf), has_handler = has_xf && !lua_isnoneornil(L, handler);
  if (has_xf) {
    face_check_callable(L, xf, "chan: transducer");
    if (has_handler) face_check_callable(L, handler, "chan: exception handler");
    if (b.kind == BUFFER_NONE) return luaL_error(L, "chan: a transducer needs a buffer; give a size of 1 or more");
  } else if (!lua_isnoneornil(L, handler)) {
    return luaL_error(L, "chan: an exception handler without a transducer would never be called");
  }
  int nuvalues = has_xf ? CHAN_HANDLER : CHAN_EXTRAS;
  if (b.kind != BUFFER_POLICY && b.limit <= CHAN_INLINE) {
    b.size = b.limit;
    b.base = (uint8_t)(b.limit > 1 ? nuvalues + 1 : CHAN_VALUES);
    if (b.limit > 1) nuvalues += (int)b.limit;
  }
  Chan *ch = (Chan *)lua_newuserdatauv(L, sizeof(Chan), nuvalues);
  int at = lua_gettop(L);
  chan_init(ch, S);
  lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
  lua_setmetatable(L, at);
  if (b.kind == BUFFER_POLICY) {
    lua_pushvalue(L, policy);
    lua_setiuservalue(L, at, CHAN_VALUES);
  }
  ch->buf = b;
  if (has_xf) {
    lua_pushvalue(L, xf);
    lua_pushvalue(L, SCHED_SELF);
    lua_pushvalue(L, at);
    lua_pushcclosure(L, chan_user_add, 2);
    lua_call(L, 1, 1);
    if (luaL_getmetafield(L, -1, "__call") == LUA_TNIL) {
      if (!lua_isfunction(L, -1)) return luaL_error(L, "chan: the transducer returned a %s instead of a reducing function", luaL_typename(L, -1));
    } else {
      lua_pop(L, 1);
    }
    lua_setiuservalue(L, at, CHAN_STEP);
    if (has_handler) {
      lua_pushvalue(L, handler);
      lua_setiuservalue(L, at, CHAN_HANDLER);
    }
    ch->flags |= CHAN_XFORM;
  }
  lua_settop(L, at);
  return 1;
}

void face_push_chan(lua_State *L, Buffer b) {
  lua_pushnil(L);
  int nil = lua_gettop(L);
  new_chan(L, b, nil, nil, nil);
  lua_replace(L, nil);
}

/* chan(n or buffer, xf, ex_handler) -> ch */
static int core_chan(lua_State *L) {
  lua_settop(L, 3);
  Buffer b = check_buffer(L);
  return new_chan(L, b, 4, 2, 3);
}

/* promise_chan(xf, ex_handler) -> ch */
static int core_promise_chan(lua_State *L) {
  lua_settop(L, 2);
  return new_chan(L, (Buffer){.kind = BUFFER_PROMISE, .limit = 1}, 0, 1, 2);
}

/* timeout(ms) -> ch */
static int core_timeout(lua_State *L) {
  int64_t ns = face_check_ms(L, 1, "timeout");
  timeout_push(L, sched_self(L), ns);
  return 1;
}

/* is_chan(v) -> boolean */
static int core_is_chan(lua_State *L) {
  lua_pushboolean(L, face_to_chan(L, 1) != NULL);
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
      {"__close", chan_lua_close},
      {"__len", chan_meta_len},
      {"__tostring", chan_meta_tostring},
      {NULL, NULL},
  };
  static const luaL_Reg functions[] = {
      {"chan", core_chan},
      {"promise_chan", core_promise_chan},
      {"timeout", core_timeout},
      {"is_chan", core_is_chan},
      {NULL, NULL},
  };
  face_register(L, functions);
  luaL_newmetatable(L, CHAN_TNAME);
  face_register(L, metamethods);
  lua_newtable(L);
  face_register(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "methods");
  lua_setfield(L, -2, "__index");
  lua_setiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
}
