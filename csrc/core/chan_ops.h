/* chan_ops.h: how a channel does what it does in a way of its own: its values are elsewhere, or go through user code.
   Such a channel has CHAN_SPECIAL and a struct of functions; chan.h asks for the flag once, and leaves the rest to
   them.

   `at` is the absolute index of the channel's userdata in L. A function that raises has done nothing. */
#ifndef RUNNEL_CHAN_OPS_H
#define RUNNEL_CHAN_OPS_H

#include "base/chan_stats.h"
#include "core/state.h"

/* What became of a put that was tried. */
typedef enum PutResult { PUT_DONE, PUT_CLOSED, PUT_WAIT } PutResult;

/* chan_take's answer when there is nothing to take. */
#define TAKE_WAIT (-1)

typedef struct ChanOps {
  /* As chan_put, chan_take and chan_close (chan.h), of a channel that is not known to be closed. These may run user
     code and raise. */
  PutResult (*put)(lua_State *L, Chan *ch, int at, int value);
  int (*take)(lua_State *L, Chan *ch, int at);
  void (*close)(lua_State *L, Chan *ch, int at, int reason);
  /* How many values there are; may call a policy and raise. NULL: ChanStats.count of `stats`. */
  lua_Integer (*count)(lua_State *L, Chan *ch, int at);
  /* As chan_stats. NULL: the fields of Chan are right. */
  ChanStats (*stats)(lua_State *L, const Chan *ch);
  /* As chan_can: whether a put, or a take, would complete at once; of a shared channel only as long as other threads
     leave it as it is. */
  bool (*can)(lua_State *L, Chan *ch, int at, bool is_put);
  /* Begins to wait for the operation of `alt` on the channel, which is at index `alt_at` of alt->co; the caller
     enqueues a waiter next. Or completes it now: pushes its results and returns how many. May raise. NULL: nothing else
     is needed than to enqueue. */
  int (*wait)(lua_State *L, Chan *ch, int at, Alt *alt, int alt_at, const Operation *op);
  /* new_done pushes a new channel for done(); `watch` is then called to make it close when this one does. NULL: as for
     a plain channel. Both may raise. */
  Chan *(*new_done)(lua_State *L, Chan *ch, int at);
  void (*watch)(lua_State *L, Chan *ch, const Chan *done);
  /* Whether it is closed, or will be when the code that it runs returns. Does not raise. */
  bool (*is_closed)(const Chan *ch);
  /* Whether somebody in another state has taken the error with which it was closed. NULL: there is no other state. */
  bool (*is_error_taken)(const Chan *ch);
} ChanOps;

/* The functions of such a channel, or NULL. */
static inline const ChanOps *chan_ops(const Chan *ch) { return UNLIKELY(ch->flags & CHAN_SPECIAL) ? ch->ops : NULL; }

/* Whether a channel, local or shared, is closed, or will be when the code that it runs returns. */
static inline bool chan_is_closed(const Chan *ch) {
  return ch->flags & CHAN_CLOSED || (UNLIKELY(ch->flags & CHAN_SPECIAL) && ch->ops->is_closed(ch));
}

#endif
