/* chan.h: the channel: put, take and close over two queues of waiters (puts, takes) and at most one buffer. Waiters are
   operations that have not completed; only the buffer holds data. Between operations these always hold:

   1. a put and a take never wait together (except the two sides of one alts);
   2. no take waits while the buffer has a value;
   3. no put waits while the buffer has room;
   4. no take waits on a closed channel, and no put once it is drained;
   5. a waiter in a queue is active: its alt has not been committed or withdrawn.

   A channel is a userdata that begins with a Chan. Its values are in its user values (chan_state.h). `at` is the
   absolute index of that userdata in `L`, where the functions may push and pop.

   All functions may raise a Lua error (out of memory, an error in a policy), and then have done nothing. Every
   allocation may run finalizers, which may use any channel: so an operation allocates first, and decides after that. */
#ifndef RUNNEL_CHAN_H
#define RUNNEL_CHAN_H

#include <string.h>

#include "channels/alt.h"
#include "core/attr.h"
#include "core/chan_ops.h"
#include "core/observe.h"
#include "core/state.h"

/* The limit of waiting puts, and of waiting takes, of one channel (as in core.async). The library's own do not count:
   each of its go blocks waits with at most one value, which came from a channel that has the limit. */
#define CHAN_MAX_PENDING 1024

/* ---- making one ---- */

/* Pushes a new unbuffered channel: a userdata of `size` >= CHAN_UNBUFFERED_SIZE bytes that begins with a Chan. */
static inline Chan *chan_new(lua_State *L, Sched *S, size_t size, int nuvalues) {
  Chan *ch = (Chan *)lua_newuserdatauv(L, size, nuvalues);
  memset(ch, 0, size < sizeof(Chan) ? size : sizeof(Chan));
  ch->tag = &chan_tag;
  ch->sched = S;
  ch->id = S->next_id++;
  lua_getiuservalue(L, SCHED_SELF, SCHED_CHAN_META);
  lua_setmetatable(L, -2);
  return ch;
}

/* Pushes a new channel with a buffer of b's kind and limit, which is not BUFFER_POLICY. */
Chan *chan_new_buffered(lua_State *L, Sched *S, Buffer b);

/* Whether it is a handle: this state's access to a channel that it shares with others (shared_handle.h). */
static inline bool chan_is_shared(const Chan *ch) { return ch->buf.kind == BUFFER_SHARED; }

/* Pushes the channel's only done() channel, which closes when this one closes, even if this one still holds values. */
void chan_push_done(lua_State *L, Chan *ch, int at);

/* ---- put, take, close ---- */

/* A put on a channel with one of these flags takes a special path. */
#define CHAN_SPECIAL_PUT (CHAN_CLOSED | CHAN_RESULT | CHAN_SPECIAL)

/* Puts the value at index `value` of L, if a put can complete at once. */
PutResult chan_put(lua_State *L, Chan *ch, int at, int value);

/* Takes, if a take can complete at once, and pushes the value; if the channel is closed and drained, pushes nil, and
   the reason of the close if there is one. Returns how many values it pushed, or TAKE_WAIT. */
int chan_take(lua_State *L, Chan *ch, int at);

/* Puts the value at index at + 1, or takes, if that can complete at once. Pushes the results (of a put: whether the
   channel accepted the value) and returns how many they are; or 0. */
static inline int chan_try(lua_State *L, Chan *ch, int at, bool is_put) {
  if (!is_put) {
    int n = chan_take(L, ch, at);
    return n == TAKE_WAIT ? 0 : n;
  }
  PutResult result = chan_put(L, ch, at, at + 1);
  if (result == PUT_WAIT) return 0;
  lua_pushboolean(L, result == PUT_DONE);
  return 1;
}

/* Closes. Unless `reason` is 0, takes of the drained channel return nil and the value at that index of L. */
void chan_close(lua_State *L, Chan *ch, int at, int reason);

/* The first of three parts of chan_close, for special channels: stores the reason, unless `reason` is 0. Returns false
   if a finalizer has closed the channel meanwhile. May raise; then nothing has changed. */
bool chan_close_begin(lua_State *L, Chan *ch, int at, int reason);

/* Closes it to puts. */
void chan_close_puts(lua_State *L, Chan *ch);

/* Completes the waiting takes with nil, and calls chan_notify_closed. */
void chan_close_end(lua_State *L, Chan *ch, int at);

/* Closes a closed channel's ports and done() channel, and calls its function ATTR_ON_CLOSE, if any. Does not raise. */
void chan_notify_closed(lua_State *L, int at);

/* Its statistics. Runs no user code, so a policy counts 0 values. Raises if a finalizer has freed the handle. */
ChanStats chan_stats(lua_State *L, const Chan *ch);

/* The number of values in the buffer. May call a policy and so raise. */
lua_Integer chan_count(lua_State *L, Chan *ch, int at);

/* ---- whether an operation would complete at once ---- */

/* A channel without any of these flags has a fixed buffer, whose slots are user values. */
#define CHAN_NO_SLOTS (CHAN_SPECIAL | CHAN_ENDLESS | CHAN_UNBUFFERED | CHAN_RESULT | CHAN_CLOSES_ITSELF)

/* Whether a put would only store its value in such a slot: one is free, and no take waits. */
static inline bool chan_only_stores(const Chan *ch) {
  return !(ch->flags & (CHAN_NO_SLOTS | CHAN_CLOSED)) && ch->buf.count < ch->buf.limit && !ch->waiting[TAKES];
}

/* Puts the value on top of L in that way, and pops it. */
static inline void chan_just_store(lua_State *L, Chan *ch, int at) {
  lua_setiuservalue(L, at, ch->buf.base + (int)buffer_tail(&ch->buf));
  ch->buf.count++;
  ch->put_total++;
  ch->last = ch->sched->actor;
  OBSERVE(ch->sched, put, L, ch, at, 0, NULL);
}

/* Whether a take would only fetch a value from such a slot: it has a value, and no put waits. */
static inline bool chan_only_fetches(const Chan *ch) {
  return !(ch->flags & CHAN_NO_SLOTS) && ch->buf.count && !ch->waiting[PUTS];
}

/* Pushes the oldest value, if the slots are user values, and empties its slot. The caller must advance. */
static inline void chan_fetch_slot(lua_State *L, const Buffer *b, int at) {
  int slot = b->base + (int)b->head;
  /* The slot must not keep the value alive; numbers and booleans can stay there. */
  if (lua_getiuservalue(L, at, slot) >= LUA_TSTRING) {
    lua_pushnil(L);
    lua_setiuservalue(L, at, slot);
  }
}

/* Counts a take from the buffer by the running code. */
static inline void chan_count_take(Chan *ch) {
  ch->take_total++;
  ch->last = ch->sched->actor;
  OBSERVE(ch->sched, take, ch, NULL);
}

/* Takes in that way, and pushes the value. */
static inline void chan_just_fetch(lua_State *L, Chan *ch, int at) {
  chan_fetch_slot(L, &ch->buf, at);
  buffer_advance(&ch->buf);
  chan_count_take(ch);
}

/* Whether chan_put, or chan_take, would complete at once, for a channel without a policy that is not shared. */
static inline bool chan_can(const Chan *ch, bool is_put) {
  /* A put on a result channel completes at once: it raises an error. */
  if (is_put) return ch->waiting[TAKES] || !buffer_full(&ch->buf) || ch->flags & (CHAN_CLOSED | CHAN_RESULT);
  return buffer_count(&ch->buf) || ch->waiting[PUTS] || ch->flags & CHAN_CLOSED;
}

/* ---- the queues ---- */

/* The first waiter to complete, once something comes for a queue: active, and withdrawn from its shared channels. The
   caller must complete it. It may be that of another channel (states/gather.h). Or NULL. */
static inline Waiter *chan_first_waiter(Chan *ch, bool is_put) {
  const List *queue = &ch->queues[is_put];
  for (;;) {
    if (!queue->first) return NULL;
    Waiter *w = CONTAINER_OF(queue->first, Waiter, link);
    if (UNLIKELY(!alt_is_active(w->alt))) {
      alt_drop_first(ch, is_put);
    } else if (LIKELY(!w->alt->shared) || (w = ch->sched->others->claim(ch->sched, w)) != NULL) {
      return w;
    }
  }
}

/* Hands off the value on top of L, which is popped, to a waiting take. The waiter may be read until its owner runs. */
void chan_complete_take(lua_State *L, Waiter *w);

/* Completes a waiting put with the result `accepted`. The waiter may be read until its owner runs. */
void chan_complete_put(lua_State *L, Waiter *w, bool accepted);

/* Whether fewer than CHAN_MAX_PENDING of the waiting puts, or takes, count; takes time in proportion to their number.
   True for a handle: the shared channel has its own limit. */
bool chan_few_count(const Chan *ch, bool is_put);

/* Whether one more put, or take, may be enqueued. Any number of takes may wait on a channel that closes itself. */
static inline bool chan_has_room(const Chan *ch, bool is_put) {
  if (LIKELY(ch->waiting[is_put] < CHAN_MAX_PENDING)) return true;
  return (!is_put && ch->flags & CHAN_CLOSES_ITSELF) || chan_few_count(ch, is_put);
}

/* Raises the error for a put, or take, beyond the limit. */
int chan_no_room(lua_State *L, const Chan *ch, int at, bool is_put);

/* ---- the values of the buffer ---- */

/* Makes a slot for one more value if there is none; for a transducer even above the limit. */
void chan_reserve(lua_State *L, Chan *ch, int at);

/* Adds the value at index `value` to the buffer, which must have a slot. Neither allocates nor raises. */
void chan_store(lua_State *L, Chan *ch, int at, int value);

/* Removes and pushes the oldest value of the buffer, which must have one. */
void chan_fetch(lua_State *L, Chan *ch, int at);

/* ---- the invariants, asserted in a debug build (chan_check.c) ---- */

#ifdef RUNNEL_DEBUG
void chan_check(const Chan *ch);
#else
#define chan_check(ch) ((void)(ch))
#endif

#endif
