/* hold.h: the handles of channels in the C API, for bodies of calls (api.h). */
#ifndef RUNNEL_HOLD_H
#define RUNNEL_HOLD_H

#include "capi/runnel.h"
#include "core/state.h"

/* Pushes the channel of a hold and returns it, or returns NULL if there is no such hold. */
Chan *api_push_chan(lua_State *L, const runnel_chan *hold);

/* Makes a hold on the channel on top of the stack, and pops the channel. If nil is on top instead,
   api_set_hold must set the channel later. */
runnel_chan *api_hold(lua_State *L);

/* Makes the hold refer to the channel on top of the stack, and pops the channel. Does not raise. */
void api_set_hold(lua_State *L, const runnel_chan *hold);

/* The go block whose result channel is at index `at`; or, if that is the result of a thread, the go block that receives
   the thread's errors, whose result channel replaces it. NULL for another channel. Does not raise. */
Go *api_to_go(lua_State *L, int at);

#endif
