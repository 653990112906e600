/* chan_custom.h: channels whose values go through user code: a transducer, its exception handler, or a buffer policy
   written in Lua.

   While such code runs the channel is busy: other operations on it raise, closing it is put off until the code returns,
   and nothing may wait. The code is always called protected, so that an error in it leaves the channel as it was. An
   error in a transducer goes to the exception handler, or to on_error. An error in a policy is raised by the operation
   for which the policy was called, which may be a waiting put or take; if it was called for none, the error goes to
   on_error. */
#ifndef RUNNEL_CHAN_CUSTOM_H
#define RUNNEL_CHAN_CUSTOM_H

#include "core/chan.h"

/* Gives a new channel the transducer at index `xf` and the exception handler at index `handler` (0: none). Raises what
   the transducer raises, or if it does not return a function. */
void chan_custom_transduce(lua_State *L, Chan *ch, int at, int xf, int handler);

/* chan_put, chan_take, chan_count and buffer_full for such channels. */
PutResult chan_custom_put(lua_State *L, Chan *ch, int at, int value);
int chan_custom_take(lua_State *L, Chan *ch, int at);
lua_Integer chan_custom_count(lua_State *L, Chan *ch, int at);
bool chan_custom_full(lua_State *L, Chan *ch, int at);

/* Raises if the channel is busy; also makes room on the stack for any operation on it. */
void chan_custom_check_busy(lua_State *L, const Chan *ch, int at);

/* Makes room on the stack for closing the channel, which must not stop half way. May raise. */
void chan_custom_prepare(lua_State *L);

/* For a closed channel on which no put waits: runs the transducer's completion, which may still add values, and calls
   the policy's close. Once only; does nothing for other channels. Does not raise. */
void chan_custom_finish(lua_State *L, Chan *ch, int at);

/* Whether chan_custom_finish is still to run although the channel is closed and no put waits: the last waiting put, of
   an alts, was withdrawn. The next take that finds nothing runs it. */
static inline bool chan_custom_unfinished(const Chan *ch) {
  return ch->flags & CHAN_CLOSED && !(ch->flags & CHAN_FINISHED) && !ch->nputs &&
         (ch->flags & CHAN_XFORM || ch->buf.kind == BUFFER_POLICY);
}

#endif
