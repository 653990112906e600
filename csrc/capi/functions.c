/* capi/functions.c: the functions that C modules get from runnel.core; see runnel.h. */
#include "capi/api.h"

static const runnel_functions functions = {
    .version = RUNNEL_FUNCTIONS_VERSION,
    .size = sizeof(runnel_functions),
    .strerror = runnel_strerror,
    .message = runnel_message,
    .chan_new = runnel_chan_new,
    .chan_get = runnel_chan_get,
    .chan_push = runnel_chan_push,
    .chan_release = runnel_chan_release,
    .chan_close = runnel_chan_close,
    .offer = runnel_offer,
    .poll = runnel_poll,
    .port_open = runnel_port_open,
    .port_hold = runnel_port_hold,
    .port_release = runnel_port_release,
    .port_close = runnel_port_close,
    .port_wait = runnel_port_wait,
    .post_boolean = runnel_post_boolean,
    .post_integer = runnel_post_integer,
    .post_number = runnel_post_number,
    .post_bytes = runnel_post_bytes,
    .post_call = runnel_post_call,
    .shared_new = runnel_shared_new,
    .shared_get = runnel_shared_get,
    .shared_push = runnel_shared_push,
    .shared_hold = runnel_shared_hold,
    .shared_release = runnel_shared_release,
    .shared_close = runnel_shared_close,
    .shared_put_boolean = runnel_shared_put_boolean,
    .shared_put_integer = runnel_shared_put_integer,
    .shared_put_number = runnel_shared_put_number,
    .shared_put_bytes = runnel_shared_put_bytes,
    .task_add = runnel_task_add,
    .task_cancel = runnel_task_cancel,
    .reader_open = runnel_reader_open,
    .reader_watch = runnel_reader_watch,
    .reader_close = runnel_reader_close,
    .interrupt = runnel_interrupt,
};

void functions_open(lua_State *L) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)&functions); /* only ever read through a const pointer */
  lua_setfield(L, LUA_REGISTRYINDEX, RUNNEL_FUNCTIONS_KEY);
}
