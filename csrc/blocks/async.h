/* async.h: take and put with a callback, which may be called anywhere: nothing waits.

   If the operation can be done at once, and on_caller is true, the callback is called at once. Otherwise a go block
   that has not started is enqueued with the operation, and begins with the callback when that is completed.

   The channel is at index 1 of L. These raise if the channel is full of waiting operations, or memory runs out; an
   error in the callback goes to on_error. */
#ifndef RUNNEL_ASYNC_H
#define RUNNEL_ASYNC_H

#include "core/state.h"

/* Takes; the callback is at index 2, the top of L. */
void async_take(lua_State *L, Chan *ch, bool on_caller);

/* Puts the value at index 2; the callback is at index 3, the top of L. Returns false if the channel is closed. */
bool async_put(lua_State *L, Chan *ch, bool on_caller);

#endif
