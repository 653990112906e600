/* async.h: take and put with a callback, in any code: nothing waits. If the operation completes at once, and
   `on_caller` is true, the callback is called at once. Otherwise a go block that has not started is enqueued with the
   operation; when that completes, it begins with the callback. A hidden go block is in no list, so no program can
   cancel it, which would drop the callback. */
#ifndef RUNNEL_ASYNC_H
#define RUNNEL_ASYNC_H

#include "core/state.h"

/* Begins a put or take. L holds the channel, the value of a put, and the callback. Returns false for a put on a closed
   channel. Raises if too many operations wait, or memory runs out; a callback's error goes to on_error. */
bool async_begin(lua_State *L, Chan *ch, bool is_put, bool on_caller, bool is_hidden);

#endif
