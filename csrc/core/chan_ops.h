/* chan_ops.h: the functions of a special channel (CHAN_SPECIAL), whose values are elsewhere or go through user code.
   chan.h tests the flag and calls these functions. A function that raises has done nothing.

   `at` is the absolute index of the channel's userdata in L. */
#ifndef RUNNEL_CHAN_OPS_H
#define RUNNEL_CHAN_OPS_H

#include "base/chan_stats.h"
#include "core/state.h"

/* The result of a tried put. */
typedef enum PutResult { PUT_DONE, PUT_CLOSED, PUT_WAIT } PutResult;

/* chan_take returns this when there is nothing to take. */
#define TAKE_WAIT (-1)

typedef struct ChanOps {
  /* As chan_put, chan_take, chan_close (chan.h); the channel is not known to be closed. May raise, and run user
     code. */
  PutResult (*put)(lua_State *L, Chan *ch, int at, int value);
  int (*take)(lua_State *L, Chan *ch, int at);
  void (*close)(lua_State *L, Chan *ch, int at, int reason);
  /* The number of buffered values; may call a policy and raise. NULL: ChanStats.count of `stats`. */
  lua_Integer (*count)(lua_State *L, Chan *ch, int at);
  /* As chan_stats. NULL: the fields of Chan are right. */
  ChanStats (*stats)(lua_State *L, const Chan *ch);
  /* As chan_can. For a shared channel, other threads may change the answer at any time. */
  bool (*can)(lua_State *L, Chan *ch, int at, bool is_put);
  /* Prepares to wait for the operation of `alt` on the channel, which is at index `alt_at` of alt->co; then the caller
     enqueues a waiter. Or completes it: pushes its results and returns how many. May raise. NULL: only enqueue. */
  int (*wait)(lua_State *L, Chan *ch, int at, Alt *alt, int alt_at, const Operation *op);
  /* new_done pushes a done() channel; `watch` then makes it close with this one. Both may raise. NULL: see chan.c. */
  Chan *(*new_done)(lua_State *L, Chan *ch, int at);
  void (*watch)(lua_State *L, Chan *ch, const Chan *done);
  /* Whether it is closed, or closes when the code that it runs returns. Does not raise. */
  bool (*is_closed)(const Chan *ch);
  /* Whether another state has taken the error with which it was closed. NULL: no other state has the channel. */
  bool (*is_error_taken)(const Chan *ch);
  /* For chan_check.c: whether the invariants of the buffer hold now. */
  bool (*is_checked)(const Chan *ch);
} ChanOps;

/* The functions of such a channel, or NULL. */
static inline const ChanOps *chan_ops(const Chan *ch) { return UNLIKELY(ch->flags & CHAN_SPECIAL) ? ch->ops : NULL; }

/* Whether a channel, local or shared, is closed, or closes when the code that it runs returns. */
static inline bool chan_is_closed(const Chan *ch) {
  return ch->flags & CHAN_CLOSED || (UNLIKELY(ch->flags & CHAN_SPECIAL) && ch->ops->is_closed(ch));
}

#endif
