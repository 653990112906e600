/* chan.h: the channel: put, take, close over two queues of waiters (puts, takes) and at most one buffer. A waiter is an
   operation that has not completed; the buffer holds data only. Outside an operation these always hold, and a debug
   build asserts them:

   1. never a pending put and a pending take together (except the two sides of one alts);
   2. never a pending take while the buffer has a value;
   3. never a pending put while the buffer has room;
   4. a closed channel has no pending take, and once drained no pending put;
   5. a waiter that is in a queue is active: its alt has not been committed or withdrawn.

   A channel is a userdata that begins with a Chan. Its values are in its user values (state.h).

   Functions here take `L`, where they may push and pop, and `at`, the absolute index of the channel's userdata in L.
   All of them may raise a Lua error (out of memory, an error in a policy); if they do, nothing has happened.

   Every allocation may run finalizers, which may use channels, this one too. So an operation first allocates what it
   needs, and decides after that. */
#ifndef RUNNEL_CHAN_H
#define RUNNEL_CHAN_H

#include <string.h>

#include "channels/alt.h"
#include "core/attr.h"
#include "core/chan_ops.h"
#include "core/state.h"

/* Pending puts, and pending takes, that one channel accepts (core.async's limit). Those of the library do not count:
   each of its go blocks waits with one value at most, which came from a channel that has the limit. */
#define CHAN_MAX_PENDING 1024

/* ---- making one ---- */

/* Pushes a new channel without a buffer: a userdata of `size` bytes, at least CHAN_UNBUFFERED_SIZE, that begins with a
   Chan. May raise. */
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

/* Pushes a new channel with a buffer of b's kind and limit, which is not BUFFER_POLICY. May raise. */
Chan *chan_new_buffered(lua_State *L, Sched *S, Buffer b);

/* Whether it is a handle, by which this state uses a channel that it shares with others (shared_handle.h). */
static inline bool chan_is_shared(const Chan *ch) { return ch->buf.kind == BUFFER_SHARED; }

/* Pushes a channel that closes when this one does, whatever this one still holds: the same one at every call. */
void chan_push_done(lua_State *L, Chan *ch, int at);

/* ---- put, take, close ---- */

/* With any of these flags a put takes a special path. */
#define CHAN_SPECIAL_PUT (CHAN_CLOSED | CHAN_RESULT | CHAN_SPECIAL)

/* Puts the value at index `value` of L if that can be done at once. */
PutResult chan_put(lua_State *L, Chan *ch, int at, int value);

/* Takes if that can be done at once, and pushes the value; or nil if the channel is closed and drained, and the reason
   if it has one. Returns how many values it pushed, or TAKE_WAIT. */
int chan_take(lua_State *L, Chan *ch, int at);

/* Does a put of the value at index at + 1, or a take, if that can be done at once. Pushes its results (of a put:
   whether the value was accepted) and returns how many they are; or 0. */
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

/* Closes. With `reason` not 0, the value at that index of L is why: takes of the drained channel give nil, reason. */
void chan_close(lua_State *L, Chan *ch, int at, int reason);

/* The three parts of chan_close, for a channel with functions of its own. Stores why it closes, unless `reason` is 0;
   returns false if it has been closed meanwhile. May raise; then nothing has changed. */
bool chan_close_begin(lua_State *L, Chan *ch, int at, int reason);

/* Closes it to puts. */
void chan_close_puts(lua_State *L, Chan *ch);

/* Completes the waiting takes with nil, and calls chan_notify_closed. */
void chan_close_end(lua_State *L, Chan *ch, int at);

/* For a closed channel: closes its ports and its done() channel, and calls the function that is to be called when it
   closes (ATTR_ON_CLOSE), if there are any. Does not raise. */
void chan_notify_closed(lua_State *L, int at);

/* Its statistics. Runs no user code, so the count of a policy is 0. Raises in a finalizer that uses a handle that has
   been finalized before. */
ChanStats chan_stats(lua_State *L, const Chan *ch);

/* Values in the buffer. May call a policy and so raise. */
lua_Integer chan_count(lua_State *L, Chan *ch, int at);

/* ---- what could be done at once ---- */

/* Whether the buffer is a fixed one, and its slots are user values. */
static inline bool chan_has_slots(const Chan *ch) { return ch->buf.kind == BUFFER_FIXED && ch->buf.base; }

/* Whether a put would only store its value in a user value: there is a free slot, no take waits, and nobody
   observes. */
static inline bool chan_only_stores(const Chan *ch) {
  return !(ch->flags & CHAN_SPECIAL_PUT) && chan_has_slots(ch) && ch->buf.count < ch->buf.limit &&
         !ch->waiting[TAKES] && LIKELY(!ch->sched->observer);
}

/* Does such a put of the value on top of L, which is popped. */
static inline void chan_just_store(lua_State *L, Chan *ch, int at) {
  lua_setiuservalue(L, at, ch->buf.base + (int)buffer_tail(&ch->buf));
  ch->buf.count++;
  ch->put_total++;
}

/* Whether a take would only fetch a value from there: there is one, no put waits, and nobody observes. */
static inline bool chan_only_fetches(const Chan *ch) {
  return !(ch->flags & CHAN_SPECIAL) && chan_has_slots(ch) && ch->buf.count && !ch->waiting[PUTS] &&
         LIKELY(!ch->sched->observer);
}

/* Removes the oldest value and pushes it, if the slots are user values. */
static inline void chan_fetch_slot(lua_State *L, Buffer *b, int at) {
  int slot = b->base + (int)b->head;
  /* The slot must not keep the value alive; numbers and booleans can stay there. */
  if (lua_getiuservalue(L, at, slot) >= LUA_TSTRING) {
    lua_pushnil(L);
    lua_setiuservalue(L, at, slot);
  }
  buffer_advance(b);
}

/* Does such a take, and pushes the value. */
static inline void chan_just_fetch(lua_State *L, Chan *ch, int at) {
  chan_fetch_slot(L, &ch->buf, at);
  ch->take_total++;
}

/* Whether chan_put, or chan_take, would complete at once, if the channel has no policy and is not shared. */
static inline bool chan_can(const Chan *ch, bool is_put) {
  /* A put on a result channel can: it raises an error. */
  if (is_put) return ch->waiting[TAKES] || !buffer_full(&ch->buf) || ch->flags & (CHAN_CLOSED | CHAN_RESULT);
  return buffer_count(&ch->buf) || ch->waiting[PUTS] || ch->flags & CHAN_CLOSED;
}

/* ---- the queues ---- */

/* The first active waiter of the queue of puts or takes, or NULL. The caller must complete it: it is withdrawn from its
   shared channels. */
static inline Waiter *chan_first_waiter(Chan *ch, bool is_put) {
  const List *queue = &ch->queues[is_put];
  for (;;) {
    if (!queue->first) return NULL;
    Waiter *w = CONTAINER_OF(queue->first, Waiter, link);
    if (UNLIKELY(!alt_is_active(w->alt))) {
      alt_drop_first(ch, is_put);
    } else if (LIKELY(!w->alt->shared) || ch->sched->others->withdraw(ch->sched, w->alt)) {
      return w;
    } else {
      alt_dequeue(w); /* another thread has completed it */
    }
  }
}

/* Hands the value on top of L, which is popped, to a waiting take, and wakes its owner. The waiter can be read until
   the owner runs. */
void chan_complete_take(lua_State *L, Waiter *w);

/* Wakes the owner of a waiting put, whose value was accepted or not. The same holds for this waiter. */
void chan_complete_put(lua_State *L, Waiter *w, bool accepted);

/* Whether fewer than CHAN_MAX_PENDING of the waiting puts, or takes, count. Takes time in proportion to their number.
   True for a handle: the shared channel has the limit. */
bool chan_few_count(const Chan *ch, bool is_put);

/* Whether one more put, or take, may be enqueued. Any number of takes may wait on a timeout or for a channel to close,
   where a buffer would not help. */
static inline bool chan_has_room(const Chan *ch, bool is_put) {
  if (LIKELY(ch->waiting[is_put] < CHAN_MAX_PENDING)) return true;
  return (!is_put && ch->flags & CHAN_CLOSES_ITSELF) || chan_few_count(ch, is_put);
}

/* Raises the error for a put, or take, beyond the limit of the channel. */
int chan_no_room(lua_State *L, const Chan *ch, int at, bool is_put);

/* ---- the values of the buffer ---- */

/* Makes sure of a slot for one more value, for a transducer even above the limit. */
void chan_reserve(lua_State *L, Chan *ch, int at);

/* Adds the value at index `value` to the buffer, for which there must be a slot. Neither allocates nor raises. */
void chan_store(lua_State *L, Chan *ch, int at, int value);

/* Removes the oldest value of the buffer, which must have one, and pushes it. */
void chan_fetch(lua_State *L, Chan *ch, int at);

/* ---- the invariants ---- */

/* Asserts them in a debug build (chan_check.c). */
#ifdef RUNNEL_DEBUG
void chan_check(const Chan *ch);
#else
#define chan_check(ch) ((void)(ch))
#endif

#endif
