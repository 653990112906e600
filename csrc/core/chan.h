/* chan.h: the channel: two queues of waiters (puts, takes) and at most one buffer. A waiter is an operation that has
   not completed; the buffer holds data only. Outside an operation these always hold, and a debug build asserts them:

   1. never a pending put and a pending take together (but for the two sides of one alts); 2. never a pending take while
   the buffer has a value; 3. never a pending put while the buffer has room; 4. a closed channel has no pending take,
   and once drained no pending put; 5. a waiter that is in a queue is active: its alt has not been committed or
   withdrawn.

   A channel is a userdata that begins with a Chan. Its values are kept in its user values: CHAN_VALUES holds the one
   value of a buffer with a single slot, the table that is the ring of a large one, or the policy object of
   BUFFER_POLICY; CHAN_EXTRAS holds a table for what few channels need (see chan_extras; go blocks, whose memory counts,
   have theirs in SCHED_EXTRAS); channels with a transducer have CHAN_STEP and CHAN_HANDLER besides. Behind these, a
   buffer of up to CHAN_INLINE values has its slots, which saves a message the detour through a table.

   Functions here take `L`, where they may push and pop, and `at`, the absolute index of the channel's userdata in L.
   All of them may raise a Lua error (out of memory, an error in a policy), and if they do, nothing has happened.

   Whatever allocates may run finalizers, and these may use channels, this one too. So what an operation needs is
   allocated first, and what it decides is decided after that. */
#ifndef RUNNEL_CHAN_H
#define RUNNEL_CHAN_H

#include <lua.h>

#include "base/buffer.h"
#include "core/alt.h"

struct Sched;

/* Whether this is Lua 5.4.0 to 5.4.3, for all of which that number is the same. */
#define BEFORE_LUA_5_4_4 (LUA_VERSION_RELEASE_NUM < 50404)

/* Pending puts, and pending takes, that one channel accepts (core.async's limit). Those of the library do not count:
   each of its go blocks waits with one value at most, which came from where there is such a limit. */
#define CHAN_MAX_PENDING 1024

/* User values of a channel. */
enum { CHAN_VALUES = 1, CHAN_EXTRAS, CHAN_STEP, CHAN_HANDLER };

/* User value of a go block's result channel, which has its extras elsewhere: what it waits on while its channels keep
   it alive (keep.h). */
enum { GO_WAITS = CHAN_EXTRAS };

/* User values of a go block that feeds a channel (go_spawn_feeding): the function to call if it dies, and its first
   argument. */
enum { GO_GIVE_UP = CHAN_EXTRAS + 1, GO_FED };

/* Values of the largest buffer whose slots are user values. */
enum { CHAN_INLINE = 128 };

typedef enum ChanFlag {
  CHAN_CLOSED = 1,       /* accepts no more puts */
  CHAN_XFORM = 2,        /* values go through a transducer */
  CHAN_FINISHED = 4,     /* the transducer's completion has run, or must not */
  CHAN_BUSY = 8,         /* its transducer, handler or policy is running */
  CHAN_CLOSE_LATER = 16, /* closed while busy: to be done when that ends */
  CHAN_REASON = 32,      /* closed with an error, which is in the extras, or in CHAN_VALUES (CHAN_REASON_HERE) */
  CHAN_REASON_HERE = 64, /* see CHAN_REASON */
  CHAN_RESULT = 128,     /* the result channel of a go block that lives: CHAN_VALUES holds its coroutine */
  CHAN_TIMEOUT = 256,    /* a pending timeout: the timer will close it */
  CHAN_DONE = 512,       /* closes when another does, and is its own done() */
  CHAN_HAS_EXTRAS = 1024, /* it has a table of extras */
  CHAN_GO = 2048,         /* the result channel of a go block, living or not */
  CHAN_ADMITTING = 4096,  /* a waiting put is being admitted, and others may wait although there is room */
  CHAN_DYING = 8192,      /* of a go block that has died, and whose variables are being closed (closing.h) */
  CHAN_KILLED = 16384,    /* of a go block that dies at its next turn: somebody else has resumed its coroutine */
  CHAN_KEPT = 32768,      /* it is in the scheduler's list of what go blocks wait on (keep.h) */
  CHAN_FEEDS = 65536,     /* the result channel of a go block with GO_GIVE_UP and GO_FED */
  CHAN_ERROR_TAKEN = 131072 /* somebody has taken the error with which it was closed (unhandled.h) */
} ChanFlag;

typedef struct Chan {
  const void *tag;     /* chan_tag: what tells a channel from a foreign userdata, faster than its metatable */
  struct Sched *sched; /* the scheduler that it belongs to */
  List puts;           /* waiting puts, first come first served */
  List takes;          /* waiting takes */
  uint32_t ntakes;     /* how many takes wait */
  uint32_t nputs;      /* how many puts wait: those of ports may be any number */
  uint32_t flags;      /* of ChanFlag */
  Buffer buf;          /* the buffer's state */
  uint32_t slot;       /* of a go block's result channel: its place in SCHED_ANCHORS, 0 once it has ended */
  uint64_t id;         /* unique in the scheduler; a go block has that of its result channel */
  uint64_t put_total;  /* puts accepted so far */
  uint64_t take_total; /* values taken so far */
} Chan;

/* What became of a put that was tried. */
typedef enum PutResult { PUT_DONE, PUT_CLOSED, PUT_WAIT } PutResult;

/* chan_take's answer when nothing is there to take. */
#define TAKE_WAIT (-1)

/* Its address is the tag of channels. */
extern const char chan_tag;

/* The channel at index `i` of L, or NULL for anything else. */
static inline Chan *chan_to(lua_State *L, int i) {
  Chan *ch = (Chan *)lua_touserdata(L, i);
  /* A light userdata has no length; a foreign one may be shorter than the tag. */
  if (UNLIKELY(!ch || lua_rawlen(L, i) < sizeof(Chan) || ch->tag != &chan_tag)) return NULL;
  return ch;
}

/* Initialises a channel without a buffer. */
void chan_init(Chan *ch, struct Sched *S);

/* Puts the value at index `value` of L if that can be done at once. */
PutResult chan_put(lua_State *L, Chan *ch, int at, int value);

/* Whether chan_put would complete at once without allocating and without running code of the user's, and so cannot
   raise. */
static inline bool chan_put_is_plain(const Chan *ch) {
  if (ch->flags & (CHAN_CLOSED | CHAN_XFORM | CHAN_BUSY | CHAN_RESULT) || ch->buf.kind == BUFFER_POLICY) return false;
  if (ch->takes.first && ch->buf.kind != BUFFER_PROMISE) return true;
  return !buffer_full(&ch->buf) && (ch->buf.count < ch->buf.size || buffer_add(&ch->buf) != BUFFER_ADD);
}

/* Takes if that can be done at once, and pushes the value, or nil of a closed and drained channel and then its reason
   if it has one. Returns how many it pushed, or TAKE_WAIT. */
int chan_take(lua_State *L, Chan *ch, int at);

/* Whether a policy has room, or values. May raise. */
bool chan_policy_can(lua_State *L, Chan *ch, int at, bool is_put);

/* Whether chan_put would complete at once. May call a policy and so raise. */
static inline bool chan_can_put(lua_State *L, Chan *ch, int at) {
  if (ch->takes.first || ch->flags & CHAN_CLOSED) return true;
  if (UNLIKELY(ch->buf.kind == BUFFER_POLICY)) return chan_policy_can(L, ch, at, true);
  return !buffer_full(&ch->buf);
}

/* Whether chan_take would complete at once. May call a policy and so raise. */
static inline bool chan_can_take(lua_State *L, Chan *ch, int at) {
  if (ch->buf.count || ch->puts.first || ch->flags & CHAN_CLOSED) return true;
  return UNLIKELY(ch->buf.kind == BUFFER_POLICY) && chan_policy_can(L, ch, at, false);
}

/* Whether fewer than CHAN_MAX_PENDING of the waiters in the queue count. Takes time in proportion to its length. */
bool chan_few_count(const List *queue);

/* Whether one more put, or take, may wait. Any number of takes may wait for a time to come, or for a channel to close:
   there a buffer is no cure. */
static inline bool chan_has_room(const Chan *ch, bool is_put) {
  if (is_put) return LIKELY(ch->nputs < CHAN_MAX_PENDING) || chan_few_count(&ch->puts);
  if (LIKELY(ch->ntakes < CHAN_MAX_PENDING) || (ch->flags & (CHAN_TIMEOUT | CHAN_DONE))) return true;
  return chan_few_count(&ch->takes);
}

/* Raises that one more waiter is too many for the channel. */
int chan_no_room(lua_State *L, const Chan *ch, int at, bool is_put);

/* Queues a waiter of `alt`, filled in for the channel at index `at` of alt->co. There must be room; or set
   w->is_free. */
static inline void chan_wait(Chan *ch, Waiter *w, Alt *alt, int at, bool is_put) {
  w->chan = ch;
  w->alt = alt;
  w->at = at;
  w->is_put = is_put;
  w->is_free = false;
  if (is_put) {
    list_append(&ch->puts, &w->link);
    ch->nputs++;
  } else {
    list_append(&ch->takes, &w->link);
    ch->ntakes++;
  }
}

/* Queues the only waiter of `alt`, which is parked from here on; as chan_wait. */
static inline void chan_wait_alone(Chan *ch, Alt *alt, int at, bool is_put) {
  alt->state = ALT_PARKED;
  alt->waiters = &alt->own.waiter;
  alt->count = 1;
  chan_wait(ch, &alt->own.waiter, alt, at, is_put);
}

/* Takes a waiter out of its queue. */
static inline void chan_leave(Waiter *w) {
  if (w->is_put) {
    list_remove(&w->chan->puts, &w->link);
    w->chan->nputs--;
  } else {
    list_remove(&w->chan->takes, &w->link);
    w->chan->ntakes--;
  }
}

/* Takes every waiter of an alt out of its queue. Whether this commits the alt or withdraws it is for the caller to say
   by what it does next: the queues do not care. */
static inline void chan_withdraw(Alt *alt) {
  for (uint32_t i = 0; i < alt->count; i++) chan_leave(&alt->waiters[i]);
  alt->count = 0;
}

/* Pushes a channel that closes when this one does, whatever this one still holds: the same one at every call. */
void chan_push_done(lua_State *L, Chan *ch, int at);

/* Calls the function of the extras that wants to be called when the channel, which is closed, closes. Does not
   raise. */
void chan_call_on_close(lua_State *L, int at);

/* Closes. With `reason` not 0, the value at that index of L is why: takes of the drained channel give nil, reason. */
void chan_close(lua_State *L, Chan *ch, int at, int reason);

/* Values in the buffer. May call a policy and so raise. */
lua_Integer chan_count(lua_State *L, Chan *ch, int at);

/* Keys of the extras; besides these, the userdata of each go block that the channel keeps alive (anchor.h). */
typedef enum ChanExtra {
  EXTRA_NAME = 1, /* the name given to it */
  EXTRA_REASON,   /* why it was closed */
  EXTRA_DONE,     /* a channel that closes when it does */
  EXTRA_ON_CLOSE, /* a function that is called then (on_close.c) */
  EXTRA_GO,       /* the name of the go block whose result channel it is */
  EXTRA_CANCEL,   /* what that go block was cancelled with: an error that is not reported */
  EXTRA_CANCEL_2  /* the same, of one that was cancelled again while its variables were being closed */
} ChanExtra;

/* Pushes the table of extras, made when it is missing. */
void chan_extras(lua_State *L, int at);

/* Pushes the table of extras, or nil, and returns whether there is one. Neither allocates nor raises. */
bool chan_has_extras(lua_State *L, int at);

/* Pushes one of the extras, or nil. Neither allocates nor raises. */
void chan_extra(lua_State *L, int at, ChanExtra key);

/* Sets one of the extras to the value on top of L, which is popped. */
void chan_set_extra(lua_State *L, int at, ChanExtra key);

/* Pushes how the channel is called in messages: its name, or #id. */
void chan_push_name(lua_State *L, const Chan *ch, int at);

/* Pushes why a closed channel was closed; returns how many it pushed, 1 or 0. */
int chan_push_reason(lua_State *L, const Chan *ch, int at);

/* The same for a taker: from here on the error counts as taken. */
static inline int chan_give_reason(lua_State *L, Chan *ch, int at) {
  if (LIKELY(!(ch->flags & CHAN_REASON))) return 0;
  ch->flags |= CHAN_ERROR_TAKEN;
  return chan_push_reason(L, ch, at);
}

/* Makes sure of a slot for one more value, for a transducer's sake even over the limit. */
void chan_reserve(lua_State *L, Chan *ch, int at);

/* Adds the value at index `value` to the buffer, for which there must be a slot. Neither allocates nor raises. */
void chan_store(lua_State *L, Chan *ch, int at, int value);

/* Removes the oldest value of the buffer, which must have one, and pushes it. */
void chan_fetch(lua_State *L, Chan *ch, int at);

/* Whether an alt's operations are still on its stack: not while somebody closes its coroutine (coroutine.close). Before
   Lua 5.4.4 it has not ceased to wait then, but what its closing calls cannot yield. */
static inline bool chan_is_active(const Alt *alt) {
  bool waits = LIKELY(lua_status(alt->co) == LUA_YIELD) && (!BEFORE_LUA_5_4_4 || lua_isyieldable(alt->co));
  return waits || alt->flags & ALT_BARE;
}

/* Takes the first waiter out of a queue, because it is not active any more. Its go block ends at the latest when it
   gets its turn. */
void chan_drop_first(Chan *ch, bool is_put);

/* The first waiting put, or take, or NULL. */
static inline Waiter *chan_first(Chan *ch, bool is_put) {
  for (;;) {
    Link *first = is_put ? ch->puts.first : ch->takes.first;
    if (!first) return NULL;
    Waiter *w = CONTAINER_OF(first, Waiter, link);
    if (LIKELY(chan_is_active(w->alt))) return w;
    chan_drop_first(ch, is_put);
  }
}

/* The stack of an alts has, from this index on, two slots for each operation: its channel, and the value of a put. */
enum { CHAN_FIRST_OP = 4 };

/* Pushes onto co what an alts returns besides the value: the port at index `at`, or the number of its operation.
   Returns how many it pushed: 0 for an alt that is a single operation. */
static inline int chan_push_port(lua_State *co, uint8_t alt_flags, int at) {
  if (LIKELY(!(alt_flags & ALT_SELECT))) return 0;
  if (alt_flags & ALT_INDEX) lua_pushinteger(co, (at - CHAN_FIRST_OP) / 2 + 1);
  else lua_pushvalue(co, at);
  return 1;
}

/* Completes a waiting put. */
void chan_complete_put(lua_State *L, Waiter *w, bool accepted);

/* Completes a waiting take with the value on top of L, which is popped. */
void chan_complete_take(lua_State *L, Waiter *w);

/* Asserts the invariants in a debug build. */
#ifdef RUNNEL_DEBUG
void chan_check(const Chan *ch);
#else
#define chan_check(ch) ((void)(ch))
#endif

#endif
