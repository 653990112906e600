/* chan.c: see chan.h.

   How it reads: a put asks is it closed, does somebody wait, is there room, and else waits; a take likewise. What hands
   a value over (complete_*) withdraws the other side's alt from all its queues and puts the results where the other side
   will find them, on its own stack. Channels whose values go through code of the user's (a transducer, a buffer policy)
   take the paths of chan_user.c. */
#include "core/chan.h"

#include <lauxlib.h>

#include "core/chan_user.h"
#include "core/error.h"
#include "core/sched.h"

const char chan_tag = 'c';

void chan_init(Chan *ch, struct Sched *S) {
  *ch = (Chan){.tag = &chan_tag, .sched = S, .id = S->next_id++};
}

bool chan_few_count(const List *queue) {
  uint32_t n = 0;
  const Link *link = queue->first;
  do {
    if (!CONTAINER_OF(link, const Waiter, link)->is_free && ++n == CHAN_MAX_PENDING) return false;
    link = link->next;
  } while (link != queue->first);
  return true;
}

int chan_no_room(lua_State *L, const Chan *ch, int at, bool is_put) {
  chan_push_name(L, ch, at);
  const char *name = lua_tostring(L, -1);
  if (is_put) {
    lua_pushfstring(L, "%s: %d puts wait already, no more may; give the channel a buffer, and a windowed one "
                    "(sliding_buffer, dropping_buffer) where the puts come from a callback",
                    name, CHAN_MAX_PENDING);
  } else {
    lua_pushfstring(L, "%s: %d takes wait already, no more may; give each taker a channel of its own (mult), or let "
                    "fewer go blocks take",
                    name, CHAN_MAX_PENDING);
  }
  return error_raise(L);
}

void chan_drop_first(Chan *ch, bool is_put) {
  Waiter *w = CONTAINER_OF(is_put ? ch->puts.first : ch->takes.first, Waiter, link);
  Alt *alt = w->alt;
  if (alt->flags & ALT_AWAY) {
    chan_leave(w);
    return;
  }
  sched_withdraw(ch->sched, alt);
  sched_wake(ch->sched, alt, 0);
}

/* ---- completing what waits ---- */

void chan_complete_put(lua_State *L, Waiter *w, bool accepted) {
  Alt *alt = w->alt;
  lua_pushboolean(alt->co, accepted);
  int n = 1 + chan_push_port(alt->co, alt->flags, w->at);
  sched_commit(L, w->chan->sched, alt, n);
}

void chan_complete_take(lua_State *L, Waiter *w) {
  Alt *alt = w->alt;
  lua_xmove(L, alt->co, 1);
  w->chan->take_total++;
  int n = 1 + chan_push_port(alt->co, alt->flags, w->at);
  sched_commit(L, w->chan->sched, alt, n);
}

/* Completes a take with nil: the channel is closed. `reason` is an index in L, or 0. */
static void complete_closed(lua_State *L, Waiter *w, int reason) {
  Alt *alt = w->alt;
  lua_pushnil(alt->co);
  int n = 1 + chan_push_port(alt->co, alt->flags, w->at);
  if (reason) {
    if (!(alt->flags & ALT_LOOP)) w->chan->flags |= CHAN_ERROR_TAKEN;
    lua_pushvalue(L, reason);
    lua_xmove(L, alt->co, 1);
    n++;
  }
  sched_commit(L, w->chan->sched, alt, n);
}

/* ---- the values of the buffer ---- */

/* Pushes the i-th value of the buffer, and leaves its slot empty. */
static void move_out(lua_State *L, const Buffer *b, int at, uint32_t i) {
  uint32_t slot = b->head + i < b->size ? b->head + i : b->head + i - b->size;
  if (b->base) {
    lua_getiuservalue(L, at, b->base + (int)slot);
    lua_pushnil(L);
    lua_setiuservalue(L, at, b->base + (int)slot);
  } else {
    lua_getiuservalue(L, at, CHAN_VALUES);
    lua_rawgeti(L, -1, (lua_Integer)slot + 1);
    lua_replace(L, -2);
  }
}

void chan_reserve(lua_State *L, Chan *ch, int at) {
  Buffer *b = &ch->buf;
  while (b->count == b->size && buffer_add(b) == BUFFER_ADD && !(ch->flags & CHAN_REASON_HERE)) {
    uint32_t size = buffer_grown(b);
    lua_createtable(L, (int)size, 0);
    if (b->size >= size || ch->flags & CHAN_REASON_HERE) { /* a finalizer was faster, or has closed the channel */
      lua_pop(L, 1);
      continue;
    }
    for (uint32_t i = 0; i < b->count; i++) {
      move_out(L, b, at, i);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setiuservalue(L, at, CHAN_VALUES);
    b->base = 0;
    b->size = size;
    b->head = 0;
  }
}

/* chan_fetch, where the values are user values. */
static inline void fetch_inline(lua_State *L, Buffer *b, int at) {
  int slot = b->base + (int)b->head;
  /* What is taken must not be kept alive by its slot; numbers and booleans can stay there. */
  if (lua_getiuservalue(L, at, slot) >= LUA_TSTRING && b->kind != BUFFER_PROMISE) {
    lua_pushnil(L);
    lua_setiuservalue(L, at, slot);
  }
  if (LIKELY(b->kind != BUFFER_PROMISE)) buffer_advance(b); /* a promise keeps it */
}

void chan_fetch(lua_State *L, Chan *ch, int at) {
  Buffer *b = &ch->buf;
  if (LIKELY(b->base)) {
    fetch_inline(L, b, at);
    return;
  }
  lua_Integer slot = (lua_Integer)b->head + 1;
  lua_getiuservalue(L, at, CHAN_VALUES);
  if (lua_rawgeti(L, -1, slot) >= LUA_TSTRING) {
    lua_pushnil(L);
    lua_rawseti(L, -3, slot);
  }
  lua_replace(L, -2);
  buffer_advance(b);
}

/* chan_store behind the others, where the values are user values and one is free. */
static inline void store_inline(lua_State *L, Buffer *b, int at, int value) {
  lua_pushvalue(L, value);
  lua_setiuservalue(L, at, b->base + (int)buffer_tail(b));
  b->count++;
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
    store_inline(L, b, at, value);
  } else {
    lua_getiuservalue(L, at, CHAN_VALUES);
    lua_pushvalue(L, value);
    lua_rawseti(L, -2, (lua_Integer)buffer_tail(b) + 1);
    lua_pop(L, 1);
    b->count++;
  }
}

/* Serves all waiting takes of a promise that has got its value. */
static void serve_promise(lua_State *L, Chan *ch, int at) {
  Waiter *w;
  while ((w = chan_first(ch, false)) != NULL) {
    chan_fetch(L, ch, at);
    chan_complete_take(L, w);
  }
}

/* Moves waiting puts into the room that a take has made. There is a slot for each: nothing is allocated. */
static void admit(lua_State *L, Chan *ch, int at) {
  Waiter *w;
  while (!buffer_full(&ch->buf) && (w = chan_first(ch, true)) != NULL) {
    lua_pushvalue(w->alt->co, w->at + 1);
    lua_xmove(w->alt->co, L, 1);
    chan_store(L, ch, at, lua_gettop(L));
    lua_pop(L, 1);
    ch->put_total++;
    chan_complete_put(L, w, true);
  }
}

/* ---- put, take, close ---- */

PutResult chan_put(lua_State *L, Chan *ch, int at, int value) {
again:
  if (UNLIKELY(ch->flags & (CHAN_CLOSED | CHAN_XFORM | CHAN_BUSY | CHAN_RESULT) || ch->buf.kind == BUFFER_POLICY)) {
    if (ch->flags & CHAN_CLOSED) return PUT_CLOSED;
    return chan_user_put(L, ch, at, value);
  }
  Waiter *w = chan_first(ch, false);
  if (w && ch->buf.kind != BUFFER_PROMISE) {
    ch->put_total++;
    lua_pushvalue(L, value);
    chan_complete_take(L, w);
    chan_check(ch);
    return PUT_DONE;
  }
  if (buffer_full(&ch->buf)) return PUT_WAIT;
  if (UNLIKELY(ch->buf.count == ch->buf.size && buffer_add(&ch->buf) == BUFFER_ADD)) {
    chan_reserve(L, ch, at);
    goto again;
  }
  if (LIKELY(ch->buf.base && ch->buf.count < ch->buf.size)) store_inline(L, &ch->buf, at, value);
  else chan_store(L, ch, at, value);
  ch->put_total++;
  if (w) serve_promise(L, ch, at);
  chan_check(ch);
  return PUT_DONE;
}

int chan_take(lua_State *L, Chan *ch, int at) {
  /* A transducer has a say only in what is put: without waiting puts there is nothing for it to do. */
  uint32_t special = ch->nputs ? CHAN_XFORM | CHAN_BUSY : CHAN_BUSY;
  if (UNLIKELY(ch->flags & special || ch->buf.kind == BUFFER_POLICY)) return chan_user_take(L, ch, at);
  if (ch->buf.count) {
    if (LIKELY(ch->buf.base)) fetch_inline(L, &ch->buf, at);
    else chan_fetch(L, ch, at);
    ch->take_total++;
    if (ch->puts.first) admit(L, ch, at);
    chan_check(ch);
    return 1;
  }
  Waiter *w = chan_first(ch, true);
  if (w) {
    lua_pushvalue(w->alt->co, w->at + 1);
    lua_xmove(w->alt->co, L, 1);
    ch->put_total++;
    ch->take_total++;
    chan_complete_put(L, w, true);
    chan_check(ch);
    return 1;
  }
  if (!(ch->flags & CHAN_CLOSED)) return TAKE_WAIT;
  if (UNLIKELY(chan_user_unfinished(ch))) return chan_user_take(L, ch, at);
  lua_pushnil(L);
  return 1 + chan_give_reason(L, ch, at);
}

bool chan_policy_can(lua_State *L, Chan *ch, int at, bool is_put) {
  return is_put ? !chan_user_full(L, ch, at) : chan_user_count(L, ch, at) > 0;
}

lua_Integer chan_count(lua_State *L, Chan *ch, int at) {
  return ch->buf.kind == BUFFER_POLICY ? chan_user_count(L, ch, at) : (lua_Integer)ch->buf.count;
}

/* Keeps why the channel closes, unless it has been closed meanwhile. May raise; then nothing has changed. */
static void keep_reason(lua_State *L, Chan *ch, int at, int reason) {
  const Buffer *b = &ch->buf;
  bool unused = b->base > CHAN_VALUES || (b->size <= 1 && b->count == 0);
  if (unused && b->kind < BUFFER_PROMISE && !(ch->flags & (CHAN_XFORM | CHAN_RESULT))) {
    /* The slot will not be used again: closing for a reason allocates nothing where nothing is buffered. A waiting put
       would use it if there were a buffer, but waits only where that is full. */
    lua_pushvalue(L, reason);
    lua_setiuservalue(L, at, CHAN_VALUES);
    ch->flags |= CHAN_REASON | CHAN_REASON_HERE;
    return;
  }
  chan_extras(L, at);
  if (!(ch->flags & (CHAN_CLOSED | CHAN_CLOSE_LATER))) {
    lua_pushvalue(L, reason);
    lua_rawseti(L, -2, EXTRA_REASON);
    ch->flags |= CHAN_REASON;
  }
  lua_pop(L, 1);
}

/* Closes the channel that somebody asked for to learn of the closing, if there is one. */
static void close_done(lua_State *L, int at) {
  chan_extra(L, at, EXTRA_DONE);
  Chan *done = (Chan *)lua_touserdata(L, -1);
  if (done) chan_close(L, done, lua_gettop(L), 0);
  lua_pop(L, 1);
}

void chan_close(lua_State *L, Chan *ch, int at, int reason) {
  if (ch->flags & (CHAN_CLOSED | CHAN_CLOSE_LATER)) return;
  if (UNLIKELY(ch->flags & CHAN_XFORM || ch->buf.kind == BUFFER_POLICY)) chan_user_prepare(L);
  if (reason) {
    keep_reason(L, ch, at, reason);
    if (ch->flags & (CHAN_CLOSED | CHAN_CLOSE_LATER)) return; /* a finalizer was faster */
  }
  if (ch->flags & CHAN_BUSY) {
    ch->flags |= CHAN_CLOSE_LATER;
    return;
  }
  ch->flags |= CHAN_CLOSED;
  if (!ch->nputs) chan_user_finish(L, ch, at);
  Waiter *w = chan_first(ch, false);
  if (w) {
    int top = lua_gettop(L);
    reason = chan_push_reason(L, ch, at) ? top + 1 : 0;
    for (; w; w = chan_first(ch, false)) complete_closed(L, w, reason);
    lua_settop(L, top);
  }
  chan_check(ch);
  if ((ch->flags & (CHAN_HAS_EXTRAS | CHAN_TIMEOUT)) != CHAN_HAS_EXTRAS) return;
  close_done(L, at);
  chan_call_on_close(L, at);
}

/* ---- extras ---- */

bool chan_has_extras(lua_State *L, int at) {
  const Chan *ch = (const Chan *)lua_touserdata(L, at);
  if (!(ch->flags & CHAN_HAS_EXTRAS)) {
    lua_pushnil(L);
    return false;
  }
  if (!(ch->flags & CHAN_GO)) {
    lua_getiuservalue(L, at, CHAN_EXTRAS);
  } else {
    lua_getiuservalue(L, SCHED_SELF, SCHED_EXTRAS);
    lua_pushvalue(L, at);
    lua_rawget(L, -2);
    lua_replace(L, -2);
  }
  return true;
}

void chan_extras(lua_State *L, int at) {
  if (chan_has_extras(L, at)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  if (chan_has_extras(L, at)) { /* a finalizer has made one */
    lua_replace(L, -2);
    return;
  }
  lua_pop(L, 1);
  Chan *ch = (Chan *)lua_touserdata(L, at);
  lua_pushvalue(L, -1);
  if (!(ch->flags & CHAN_GO)) {
    lua_setiuservalue(L, at, CHAN_EXTRAS);
  } else {
    lua_getiuservalue(L, SCHED_SELF, SCHED_EXTRAS);
    lua_pushvalue(L, at);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 2);
  }
  ch->flags |= CHAN_HAS_EXTRAS;
}

void chan_extra(lua_State *L, int at, ChanExtra key) {
  if (!chan_has_extras(L, at)) return;
  lua_rawgeti(L, -1, key);
  lua_replace(L, -2);
}

void chan_set_extra(lua_State *L, int at, ChanExtra key) {
  chan_extras(L, at);
  lua_insert(L, -2);
  lua_rawseti(L, -2, key);
  lua_pop(L, 1);
}

int chan_push_reason(lua_State *L, const Chan *ch, int at) {
  if (LIKELY(!(ch->flags & CHAN_REASON))) return 0;
  if (ch->flags & CHAN_REASON_HERE) lua_getiuservalue(L, at, CHAN_VALUES);
  else chan_extra(L, at, EXTRA_REASON);
  return 1;
}

void chan_push_name(lua_State *L, const Chan *ch, int at) {
  chan_extra(L, at, EXTRA_NAME);
  if (lua_type(L, -1) == LUA_TSTRING) {
    lua_pushfstring(L, "chan: %s", lua_tostring(L, -1));
  } else {
    lua_pushfstring(L, "chan: #%I", (LUAI_UACINT)ch->id);
  }
  lua_replace(L, -2);
}

/* ---- who wants to know that a channel has closed ---- */

void chan_push_done(lua_State *L, Chan *ch, int at) {
  if (ch->flags & (CHAN_TIMEOUT | CHAN_DONE)) {
    lua_pushvalue(L, at); /* its closing is all that there is to see; and a chain of them could be closed by recursion only */
    return;
  }
  chan_extra(L, at, EXTRA_DONE);
  if (lua_isuserdata(L, -1)) return;
  int top = lua_gettop(L);
  Chan *done = (Chan *)lua_newuserdatauv(L, sizeof(Chan), CHAN_EXTRAS);
  chan_init(done, ch->sched);
  done->flags = CHAN_DONE;
  lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
  lua_setmetatable(L, -2);
  chan_extras(L, at);
  if (lua_rawgeti(L, -1, EXTRA_DONE) == LUA_TUSERDATA) { /* a finalizer was faster */
    lua_replace(L, top);
    lua_settop(L, top);
    return;
  }
  lua_pushvalue(L, top + 1);
  lua_rawseti(L, top + 2, EXTRA_DONE);
  lua_pushvalue(L, top + 1);
  lua_replace(L, top);
  lua_settop(L, top);
  if (ch->flags & CHAN_CLOSED) chan_close(L, done, top, 0);
}

/* ---- the invariants ---- */

#ifdef RUNNEL_DEBUG
#include <assert.h>

/* Walks a queue: its length, and that every waiter in it is active. */
static uint32_t check_queue(const Chan *ch, const List *queue, bool is_put) {
  uint32_t n = 0;
  const Link *link = queue->first;
  if (!link) return 0;
  do {
    const Waiter *w = CONTAINER_OF(link, const Waiter, link);
    assert(w->chan == ch && w->is_put == is_put);
    assert(w->alt->state == ALT_PARKED && w->alt->count > 0);
    assert(link->next->prev == link);
    n++;
    link = link->next;
  } while (link != queue->first);
  return n;
}

/* Whether the two queues hold only the two sides of one alts. */
static bool same_alt(const Chan *ch) {
  const Alt *alt = CONTAINER_OF(ch->puts.first, const Waiter, link)->alt;
  const List *queues[2] = {&ch->puts, &ch->takes};
  for (int i = 0; i < 2; i++) {
    const Link *link = queues[i]->first;
    do {
      if (CONTAINER_OF(link, const Waiter, link)->alt != alt) return false;
      link = link->next;
    } while (link != queues[i]->first);
  }
  return true;
}

void chan_check(const Chan *ch) {
  uint32_t nputs = check_queue(ch, &ch->puts, true), ntakes = check_queue(ch, &ch->takes, false);
  assert(nputs == ch->nputs && ntakes == ch->ntakes);
  assert(!(nputs && ntakes) || same_alt(ch));
  assert(!((ch->flags & CHAN_CLOSED) && ntakes));
  if (ch->buf.kind == BUFFER_POLICY) return; /* its count and room are the policy's to know */
  assert(!(ntakes && ch->buf.count));
  assert(!(nputs && !buffer_full(&ch->buf)) || ch->flags & CHAN_ADMITTING);
  assert(ch->buf.count <= ch->buf.size);
  assert(ch->buf.count <= ch->buf.limit || (ch->flags & CHAN_XFORM));
}
#endif
