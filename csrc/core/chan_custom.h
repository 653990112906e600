/* chan_custom.h: channels whose values go through code of the user's: a transducer, its exception handler, or a buffer
   policy written in Lua.

   While such code runs the channel is busy: further operations on it raise, closing it is put off until the code returns,
   and nothing may wait. The code is always called protected, so that an error in it finds the channel as it was. An error
   in a transducer goes to the exception handler, or to on_error. An error in a policy is raised by the operation that
   asked it; where that was on behalf of somebody else's put or take, the other one raises it; and where it was nobody's,
   on_error hears of it. */
#ifndef RUNNEL_CHAN_CUSTOM_H
#define RUNNEL_CHAN_CUSTOM_H

#include "core/chan.h"

/* chan_put, chan_take, chan_count and the room of such channels. */
PutResult chan_custom_put(lua_State *L, Chan *ch, int at, int value);
int chan_custom_take(lua_State *L, Chan *ch, int at);
lua_Integer chan_custom_count(lua_State *L, Chan *ch, int at);
bool chan_custom_full(lua_State *L, Chan *ch, int at);

/* Raises where the channel is busy; also makes room on the stack for any operation on it. */
void chan_custom_check_busy(lua_State *L, const Chan *ch, int at);

/* Makes room on the stack for all that an operation may come to, closing included: once begun there is no stopping half
   way. May raise. */
void chan_custom_prepare(lua_State *L);

/* Once a channel is closed and no put waits: runs the transducer's completion, which may still add values, and tells the
   policy. Once only, and nothing for other channels. Does not raise. */
void chan_custom_finish(lua_State *L, Chan *ch, int at);

/* Whether that is still to come although the channel is closed and no put waits: one that did, of an alts, has been withdrawn.
   The next take that finds nothing sees to it. */
static inline bool chan_custom_unfinished(const Chan *ch) {
  return ch->flags & CHAN_CLOSED && !(ch->flags & CHAN_FINISHED) && !ch->nputs &&
         (ch->flags & CHAN_XFORM || ch->buf.kind == BUFFER_POLICY);
}

/* Gives a new channel the transducer at index `xf` and the exception handler at index `handler` (0: none). Raises what
   the transducer raises, or if it does not return a function. */
void chan_custom_transduce(lua_State *L, Chan *ch, int at, int xf, int handler);

#endif
