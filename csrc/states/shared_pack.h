/* shared_pack.h: values on their way through shared channels: they are packed before they are put (pack.h), and
   unpacked after they were taken. If there is no memory to unpack a value that was taken, it goes back to the channel,
   and the take raises. */
#ifndef RUNNEL_SHARED_PACK_H
#define RUNNEL_SHARED_PACK_H

#include "states/shared_handle.h"

/* Packs the value at index `value`, in a state that has a Sharing. Returns false if that is impossible: see
   shared_pack_refuse. Does not raise. */
bool shared_pack(lua_State *L, Sched *S, int value, SharedValue *packed);

/* Raises why a value could not be packed for an operation. */
int shared_pack_refuse(lua_State *L, const Sched *S, const char *what);

/* Packs the value at index `value`, and returns true; or pushes why that cannot be done, and returns false. May
   raise. */
bool shared_pack_message(lua_State *L, Sched *S, int value, SharedValue *packed);

/* Pushes a value that another state has packed, which stays as it is. May raise. */
void shared_pack_push(lua_State *L, Sched *S, const SharedValue *value);

/* Pushes what an operation returns: a value taken, nil, or whether it was put; then the reason of a close, if there is
   one. Returns how many it pushed. If there is no memory for a value, gives it back, pushes an error and returns 0. */
int shared_pack_push_result(lua_State *L, const SharedWaiter *op, SharedResult *result, SharedReturn **given);

#endif
