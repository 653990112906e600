/* chan_custom.h: channels whose values go through user code: a transducer, its exception handler, or a buffer policy
   written in Lua.

   While such code runs the channel is busy: other operations on it raise, closing it is put off until the code returns,
   and nothing may wait. The code is always called protected, so that an error in it leaves the channel as it was. An
   error in a transducer goes to the exception handler, or to on_error. An error in a policy is raised by the operation
   for which the policy was called, which may be a waiting put or take; if it was called for none, the error goes to
   on_error. */
#ifndef RUNNEL_CHAN_CUSTOM_H
#define RUNNEL_CHAN_CUSTOM_H

#include "channels/chan.h"

/* Gives a new channel the transducer at index `xf` and the exception handler at index `handler` (0: none). Raises what
   the transducer raises, or if it does not return a function. */
void chan_custom_transduce(lua_State *L, Chan *ch, int at, int xf, int handler);

/* Gives a new channel of BUFFER_POLICY the policy at index `policy`. */
void chan_custom_use_policy(lua_State *L, Chan *ch, int at, int policy);

/* Raises if the channel is busy; also makes room on the stack for any operation on it. */
void chan_custom_check_busy(lua_State *L, const Chan *ch, int at);

#endif
