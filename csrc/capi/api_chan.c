/* capi/api_chan.c: channels in the C API; see runnel.h. */
#include <lauxlib.h>
#include <string.h>

#include "capi/api.h"
#include "capi/hold.h"
#include "channels/chan.h"
#include "port/pump.h"

/* ---- making and holding ---- */

static int new_chan(lua_State *L, Sched *S, Call *call) {
  chan_new_buffered(L, S, call->buffer);
  *call->hold = api_hold(L);
  return 0;
}

int runnel_chan_new(lua_State *L, int kind, size_t size, runnel_chan **ch) {
  Call call = {.body = new_chan, .hold = ch};
  return ch && api_set_buffer(&call.buffer, kind, size) ? api_call(L, 0, &call) : RUNNEL_BAD_ARGUMENT;
}

static int get_chan(lua_State *L, Sched *S, Call *call) {
  (void)S;
  if (!chan_to(L, API_VALUES)) return api_code(call, RUNNEL_BAD_ARGUMENT);
  *call->hold = api_hold(L);
  return 0;
}

int runnel_chan_get(lua_State *L, int index, runnel_chan **ch) {
  return ch ? api_call_with(L, index, &(Call){.body = get_chan, .hold = ch}) : RUNNEL_BAD_ARGUMENT;
}

static int push_chan(lua_State *L, Sched *S, Call *call) {
  (void)S;
  return api_push_chan(L, call->chan) ? 1 : api_code(call, RUNNEL_BAD_ARGUMENT);
}

int runnel_chan_push(lua_State *L, runnel_chan *ch) { return api_call(L, 0, &(Call){.body = push_chan, .chan = ch}); }

static int release_chan(lua_State *L, Sched *S, Call *call) {
  (void)S;
  if (!api_push_chan(L, call->chan)) return api_code(call, RUNNEL_BAD_ARGUMENT);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, call->chan);
  return 0;
}

int runnel_chan_release(lua_State *L, runnel_chan *ch) {
  return api_call(L, 0, &(Call){.body = release_chan, .chan = ch});
}

static int close_chan(lua_State *L, Sched *S, Call *call) {
  (void)S;
  Chan *ch = api_push_chan(L, call->chan);
  if (!ch || ch->flags & CHAN_CLOSES_ITSELF) return api_code(call, RUNNEL_BAD_ARGUMENT);
  if (call->text) lua_pushstring(L, call->text);
  chan_close(L, ch, API_VALUES, call->text ? API_VALUES + 1 : 0);
  return 0;
}

int runnel_chan_close(lua_State *L, runnel_chan *ch, const char *reason) {
  return api_call(L, 0, &(Call){.body = close_chan, .chan = ch, .text = reason});
}

/* ---- values ---- */

/* Puts the value on top of the stack. */
static int offer(lua_State *L, Sched *S, Call *call) {
  (void)S;
  if (call->value.kind != MESSAGE_NONE) message_push(L, &call->value);
  if (lua_isnil(L, API_VALUES)) return api_code(call, RUNNEL_BAD_ARGUMENT);
  Chan *ch = api_push_chan(L, call->chan);
  if (!ch) return api_code(call, RUNNEL_BAD_ARGUMENT);
  switch (chan_put(L, ch, API_VALUES + 1, API_VALUES)) {
  case PUT_CLOSED:
    return api_code(call, RUNNEL_CLOSED);
  case PUT_WAIT:
    return api_code(call, RUNNEL_FULL);
  case PUT_DONE:
    break;
  }
  return 0;
}

int runnel_offer(lua_State *L, runnel_chan *ch) { return api_call(L, 1, &(Call){.body = offer, .chan = ch}); }

int runnel_offer_boolean(lua_State *L, runnel_chan *ch, int b) {
  Message value = {.kind = MESSAGE_BOOLEAN, .as.boolean = b != 0};
  return api_call(L, 0, &(Call){.body = offer, .chan = ch, .value = value});
}

int runnel_offer_integer(lua_State *L, runnel_chan *ch, lua_Integer n) {
  Message value = {.kind = MESSAGE_INTEGER, .as.integer = n};
  return api_call(L, 0, &(Call){.body = offer, .chan = ch, .value = value});
}

int runnel_offer_number(lua_State *L, runnel_chan *ch, lua_Number n) {
  Message value = {.kind = MESSAGE_NUMBER, .as.number = n};
  return api_call(L, 0, &(Call){.body = offer, .chan = ch, .value = value});
}

int runnel_offer_bytes(lua_State *L, runnel_chan *ch, const void *bytes, size_t size) {
  if (!bytes && size) return RUNNEL_BAD_ARGUMENT;
  /* Never passed to message_drop, which would free the caller's bytes. */
  Message value = {.kind = MESSAGE_BYTES, .as.bytes = {.start = (char *)(uintptr_t)bytes, .size = size}};
  return api_call(L, 0, &(Call){.body = offer, .chan = ch, .value = value});
}

static int poll_chan(lua_State *L, Sched *S, Call *call) {
  (void)S;
  Chan *ch = api_push_chan(L, call->chan);
  if (!ch) return api_code(call, RUNNEL_BAD_ARGUMENT);
  int n = chan_take(L, ch, API_VALUES);
  if (n == TAKE_WAIT) return api_code(call, RUNNEL_EMPTY);
  if (!lua_isnil(L, API_VALUES + 1)) return 1;
  call->code = RUNNEL_CLOSED;
  if (n > 1) luaL_tolstring(L, -1, NULL);
  return API_MESSAGE;
}

int runnel_poll(lua_State *L, runnel_chan *ch) { return api_call(L, 0, &(Call){.body = poll_chan, .chan = ch}); }
