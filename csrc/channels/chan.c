/* chan.c: see chan.h.

   A put completes if the channel is closed, a take waits, or the buffer has room; else it waits. So does a take. An
   operation that completes a waiting one pushes the results onto the other owner's stack, commits its alt and wakes it.
   Special channels have their own functions (chan_ops.h). */
#include "channels/chan.h"

#include <lauxlib.h>

#include "core/attr.h"
#include "errors/error.h"

/* ---- making one ---- */

Chan *chan_new_buffered(lua_State *L, Sched *S, Buffer b) {
  bool has_buffer = b.kind != BUFFER_NONE;
  int nuvalues = has_buffer ? CHAN_VALUES : CHAN_ATTRS;
  uint32_t flags = has_buffer ? CHAN_ENDLESS : CHAN_UNBUFFERED;
  if (has_buffer && b.limit <= CHAN_INLINE) {
    b.size = b.limit;
    b.base = CHAN_VALUES;
    nuvalues = CHAN_VALUES + (int)b.limit - 1;
    if (b.kind == BUFFER_FIXED) flags = 0;
  }
  Chan *ch = chan_new(L, S, has_buffer ? sizeof(Chan) : CHAN_UNBUFFERED_SIZE, nuvalues);
  if (has_buffer) ch->buf = b;
  ch->flags = flags;
  observe_birth(L, S, lua_gettop(L));
  return ch;
}

void chan_push_done(lua_State *L, Chan *ch, int at) {
  if (ch->flags & CHAN_CLOSES_ITSELF) {
    lua_pushvalue(L, at); /* its own done(): it can only close, and closing a chain of done channels would recurse */
    return;
  }
  attr_push(L, at, ATTR_DONE);
  if (lua_isuserdata(L, -1)) return;
  lua_pop(L, 1);
  const ChanOps *ops = chan_ops(ch);
  bool is_watched = ops && ops->new_done;
  Chan *done = is_watched ? ops->new_done(L, ch, at) : chan_new(L, ch->sched, CHAN_UNBUFFERED_SIZE, CHAN_ATTRS);
  int done_at = lua_gettop(L);
  done->flags |= CHAN_CLOSES_ITSELF;
  attr_table(L, at);
  if (lua_rawgeti(L, -1, ATTR_DONE) == LUA_TUSERDATA) { /* a finalizer has made one meanwhile */
    lua_replace(L, done_at);
    lua_settop(L, done_at);
    return;
  }
  lua_pushvalue(L, done_at);
  lua_rawseti(L, done_at + 1, ATTR_DONE);
  lua_settop(L, done_at);
  if (is_watched) ops->watch(L, ch, done);
  else if (ch->flags & CHAN_CLOSED) chan_close(L, done, done_at, 0);
}

/* ---- the queues ---- */

bool chan_few_count(const Chan *ch, bool is_put) {
  const List *queue = &ch->queues[is_put];
  if (chan_is_shared(ch)) return true;
  uint32_t n = 0;
  for (const Link *link = queue->first; link; link = list_next(queue, link)) {
    if (!(CONTAINER_OF(link, const Waiter, link)->flags & WAITER_UNCOUNTED) && ++n == CHAN_MAX_PENDING) return false;
  }
  return true;
}

int chan_no_room(lua_State *L, const Chan *ch, int at, bool is_put) {
  const char *advice = is_put ? "puts wait, which is the limit; give the channel a buffer; if the puts come from a "
                                "callback, a windowed one (sliding_buffer, dropping_buffer)"
                              : "takes wait, which is the limit; give each taker a channel of its own (mult), or let "
                                "fewer go blocks take";
  attr_push_name(L, ch, at);
  lua_pushfstring(L, "%s: %d %s", lua_tostring(L, -1), CHAN_MAX_PENDING, advice);
  return error_raise(L);
}

/* Completes an operation whose first result is on top of its owner's stack. For a take that gets nil, `reason` is the
   index in L of why the channel was closed, or 0. */
static inline void complete(lua_State *L, const Waiter *w, int reason) {
  Alt *alt = w->alt;
  int n = 1 + alt_push_port(alt->co, alt->flags, w->at);
  if (reason) {
    if (!(alt->flags & ALT_LOOP)) w->chan->flags |= CHAN_ERROR_TAKEN;
    lua_pushvalue(L, reason);
    lua_xmove(L, alt->co, 1);
    n++;
  }
  alt_complete(L, w->chan->sched, alt, n);
}

void chan_complete_put(lua_State *L, Waiter *w, bool accepted) {
  lua_pushboolean(w->alt->co, accepted);
  complete(L, w, 0);
}

void chan_complete_take(lua_State *L, Waiter *w) {
  lua_xmove(L, w->alt->co, 1);
  complete(L, w, 0);
}

/* ---- the values of the buffer ---- */

void chan_fetch(lua_State *L, Chan *ch, int at) {
  Buffer *b = &ch->buf;
  if (b->kind == BUFFER_PROMISE) { /* the promise keeps its value */
    lua_getiuservalue(L, at, b->base);
    return;
  }
  if (LIKELY(b->base)) {
    chan_fetch_slot(L, b, at);
  } else {
    lua_Integer slot = (lua_Integer)b->head + 1;
    lua_getiuservalue(L, at, CHAN_VALUES);
    if (lua_rawgeti(L, -1, slot) >= LUA_TSTRING) {
      lua_pushnil(L);
      lua_rawseti(L, -3, slot);
    }
    lua_replace(L, -2);
  }
  buffer_advance(b);
}

/* Moves the values to a larger ring. May raise. */
static void grow(lua_State *L, Chan *ch, int at) {
  Buffer *b = &ch->buf;
  uint32_t size = buffer_grown(b);
  lua_createtable(L, (int)size, 0);
  if (b->size >= size) { /* a finalizer has grown it meanwhile */
    lua_pop(L, 1);
    return;
  }
  uint32_t count = b->count;
  for (uint32_t i = 1; i <= count; i++) {
    chan_fetch(L, ch, at);
    lua_rawseti(L, -2, i);
  }
  lua_setiuservalue(L, at, CHAN_VALUES);
  b->base = 0;
  b->size = size;
  b->count = count;
}

void chan_reserve(lua_State *L, Chan *ch, int at) {
  const Buffer *b = &ch->buf;
  while (b->count == b->size && buffer_add(b) == BUFFER_ADD) grow(L, ch, at);
}

void chan_store(lua_State *L, Chan *ch, int at, int value) {
  Buffer *b = &ch->buf;
  BufferAdd what = buffer_add(b);
  if (UNLIKELY(what != BUFFER_ADD)) {
    if (what == BUFFER_DROP) return;
    chan_fetch(L, ch, at);
    lua_pop(L, 1);
  }
  if (LIKELY(b->base)) {
    lua_pushvalue(L, value);
    lua_setiuservalue(L, at, b->base + (int)buffer_tail(b));
  } else {
    lua_getiuservalue(L, at, CHAN_VALUES);
    lua_pushvalue(L, value);
    lua_rawseti(L, -2, (lua_Integer)buffer_tail(b) + 1);
    lua_pop(L, 1);
  }
  b->count++;
}

/* Completes all waiting takes of a promise that has got its value. */
static void serve_promise(lua_State *L, Chan *ch, int at) {
  Waiter *w;
  while ((w = chan_first_waiter(ch, TAKES)) != NULL) {
    chan_fetch(L, ch, at);
    ch->take_total++;
    chan_complete_take(L, w);
    OBSERVE(ch->sched, serve, ch, w->alt);
  }
}

/* Moves values of waiting puts into the room that a take has made. The room has slots: nothing is allocated. */
static void admit(lua_State *L, Chan *ch, int at) {
  Waiter *w;
  while (!buffer_full(&ch->buf) && (w = chan_first_waiter(ch, PUTS)) != NULL) {
    alt_push_value(L, w);
    chan_store(L, ch, at, lua_gettop(L));
    lua_pop(L, 1);
    ch->put_total++;
    ch->last = sched_owner_id(ch->sched, w->alt);
    chan_complete_put(L, w, true);
    OBSERVE(ch->sched, admit, ch, w->alt);
  }
}

/* ---- put, take, close ---- */

PutResult chan_put(lua_State *L, Chan *ch, int at, int value) {
again:
  if (UNLIKELY(ch->flags & CHAN_SPECIAL_PUT)) {
    if (ch->flags & CHAN_CLOSED) return PUT_CLOSED;
    if (ch->flags & CHAN_RESULT) {
      luaL_error(L, "put: this is the result channel of a go block, and only the go block puts on it; "
                    "make a channel for more values");
    }
    return ch->ops->put(L, ch, at, value);
  }
  Waiter *w = chan_first_waiter(ch, TAKES);
  if (w && ch->buf.kind != BUFFER_PROMISE) {
    ch->put_total++;
    if (ch->buf.kind != BUFFER_NONE) {
      ch->take_total++;
      ch->last = sched_owner_id(ch->sched, w->alt);
    }
    lua_pushvalue(L, value);
    chan_complete_take(L, w);
    chan_check(ch);
    OBSERVE(ch->sched, put, L, ch, at, value, w->alt);
    return PUT_DONE;
  }
  if (buffer_full(&ch->buf)) return PUT_WAIT;
  if (UNLIKELY(ch->buf.count == ch->buf.size && buffer_add(&ch->buf) == BUFFER_ADD)) {
    chan_reserve(L, ch, at);
    goto again;
  }
  chan_store(L, ch, at, value);
  ch->put_total++;
  ch->last = ch->sched->actor;
  if (w) serve_promise(L, ch, at);
  chan_check(ch);
  OBSERVE(ch->sched, put, L, ch, at, value, NULL);
  return PUT_DONE;
}

int chan_take(lua_State *L, Chan *ch, int at) {
  if (UNLIKELY(ch->flags & CHAN_SPECIAL)) return ch->ops->take(L, ch, at);
  if (buffer_count(&ch->buf)) {
    chan_fetch(L, ch, at);
    chan_count_take(ch);
    if (ch->waiting[PUTS]) admit(L, ch, at);
    chan_check(ch);
    return 1;
  }
  Waiter *w = chan_first_waiter(ch, PUTS);
  if (w) {
    alt_push_value(L, w);
    ch->put_total++; /* put_total counts both sides of an unbuffered channel */
    chan_complete_put(L, w, true);
    OBSERVE(ch->sched, take, ch, w->alt);
    chan_check(ch);
    return 1;
  }
  if (!(ch->flags & CHAN_CLOSED)) return TAKE_WAIT;
  lua_pushnil(L);
  return 1 + attr_take_reason(L, ch, at);
}

ChanStats chan_stats(lua_State *L, const Chan *ch) {
  const ChanOps *ops = chan_ops(ch);
  if (ops && ops->stats) return ops->stats(L, ch);
  ChanStats stats = {.kind = (BufferKind)ch->buf.kind,
                     .ntakes = ch->waiting[TAKES],
                     .nputs = ch->waiting[PUTS],
                     .puts = ch->put_total,
                     .takes = ch->put_total,
                     .closed = (ch->flags & CHAN_CLOSED) != 0};
  if (ch->flags & CHAN_RESULT) { /* it gets this buffer when the go block ends */
    stats.kind = BUFFER_FIXED;
    stats.limit = 1;
  } else if (ch->buf.kind != BUFFER_NONE) { /* else its memory ends before these fields (CHAN_UNBUFFERED_SIZE) */
    stats.limit = ch->buf.limit;
    stats.count = ch->buf.kind == BUFFER_POLICY ? 0 : ch->buf.count;
    stats.takes = ch->take_total;
  }
  return stats;
}

lua_Integer chan_count(lua_State *L, Chan *ch, int at) {
  const ChanOps *ops = chan_ops(ch);
  return ops && ops->count ? ops->count(L, ch, at) : (lua_Integer)chan_stats(L, ch).count;
}

enum { STACK_FOR_ON_CLOSE = 8 }; /* slots of L, including those for the report of an error */

void chan_notify_closed(lua_State *L, int at) {
  int top = lua_gettop(L);
  attr_push(L, at, ATTR_DONE);
  Chan *done = (Chan *)lua_touserdata(L, -1);
  if (done && done->flags & CHAN_DONE_PORT) done->sched->port_hook->closed((Chan *)lua_touserdata(L, at));
  if (done) chan_close(L, done, top + 1, 0);
  lua_settop(L, top);
  attr_push(L, at, ATTR_ON_CLOSE);
  if (!lua_isnil(L, -1) && lua_checkstack(L, STACK_FOR_ON_CLOSE)) {
    lua_pushnil(L);
    attr_set(L, at, ATTR_ON_CLOSE); /* an existing key: nothing is allocated */
    (void)error_call(L, 0, "a function that is called on closing", at);
  }
  lua_settop(L, top);
}

/* Completes with false the waiting puts that give up when the channel closes. It is closed. */
static void give_up_puts(lua_State *L, Chan *ch) {
  Link *link = ch->queues[PUTS].first;
  for (uint32_t n = ch->waiting[PUTS]; n > 0; n--) {
    Waiter *w = CONTAINER_OF(link, Waiter, link);
    link = link->next;
    if ((w->flags & WAITER_GIVES_UP) && alt_is_active(w->alt)) chan_complete_put(L, w, false);
  }
}

bool chan_close_begin(lua_State *L, Chan *ch, int at, int reason) {
  if (!reason) return true;
  /* Closing allocates nothing: without attributes their user value is free for the reason, a table of attributes has a
     place for it, and a dead go block has no result in its first user value. */
  if (ch->flags & CHAN_GO ? !(ch->flags & CHAN_RESULT) : !(ch->flags & CHAN_HAS_ATTRS)) {
    lua_pushvalue(L, reason);
    lua_setiuservalue(L, at, CHAN_ATTRS);
  } else {
    attr_table(L, at);
    if (chan_is_closed(ch)) {
      lua_pop(L, 1); /* a finalizer has closed it meanwhile */
      return false;
    }
    lua_pushvalue(L, reason);
    lua_rawseti(L, -2, ATTR_REASON);
    lua_pop(L, 1);
  }
  ch->flags |= CHAN_REASON;
  return true;
}

void chan_close_puts(lua_State *L, Chan *ch) {
  ch->flags |= CHAN_CLOSED;
  OBSERVE(ch->sched, close, ch);
  if (UNLIKELY(ch->waiting[PUTS])) give_up_puts(L, ch);
}

void chan_close_end(lua_State *L, Chan *ch, int at) {
  Waiter *w = chan_first_waiter(ch, TAKES);
  if (w) {
    int top = lua_gettop(L);
    int reason = attr_push_reason(L, ch, at) ? top + 1 : 0;
    for (; w; w = chan_first_waiter(ch, TAKES)) {
      lua_pushnil(w->alt->co);
      complete(L, w, reason);
    }
    lua_settop(L, top);
  }
  chan_check(ch);
  if ((ch->flags & (CHAN_HAS_ATTRS | CHAN_TIMEOUT)) != CHAN_HAS_ATTRS) return;
  chan_notify_closed(L, at);
}

void chan_close(lua_State *L, Chan *ch, int at, int reason) {
  if (ch->flags & CHAN_CLOSED) return;
  if (reason && ch->sched->gives_up) ch->flags |= CHAN_ERROR_KNOWN;
  if (UNLIKELY(ch->flags & CHAN_SPECIAL)) {
    ch->ops->close(L, ch, at, reason);
    return;
  }
  if (!chan_close_begin(L, ch, at, reason)) return;
  chan_close_puts(L, ch);
  chan_close_end(L, ch, at);
}
