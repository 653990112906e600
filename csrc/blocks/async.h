/* async.h: take and put with a callback, which may be called anywhere: nothing waits.

   If the operation can be done at once, and on_caller is true, the callback is called at once. Otherwise a go block
   that has not started is enqueued with the operation, and begins with the callback when that is completed. A hidden
   one is in no list, so no program cancels it, which would drop the callback.

   Raises if the channel is full of waiting operations, or memory runs out; an error in the callback goes to on_error. */
#ifndef RUNNEL_ASYNC_H
#define RUNNEL_ASYNC_H

#include "core/state.h"

/* Begins a put or take. On L are the channel, the value of a put, and the callback. Returns false for a put on a channel
   that is closed. */
bool async_begin(lua_State *L, Chan *ch, bool is_put, bool on_caller, bool is_hidden);

#endif
