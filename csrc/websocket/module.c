/* module.c: runnel.websocket.core, the C module under lua/runnel/http/websocket.lua: the frames and messages of WebSocket.
   It has no thread and no socket. Its functions check little: the Lua module does. */
#include <lauxlib.h>

#include "websocket/accept.h"
#include "websocket/session.h"

#define SESSION "runnel.websocket.session"

enum { RANDOM_OF_KEY = 16 };

static Session *check_session(lua_State *L) {
  Session *s = (Session *)luaL_checkudata(L, 1, SESSION);
  if (!s->is_open) luaL_error(L, "the session has been collected"); /* a finalizer of the program has called a method */
  return s;
}

/* new(is_client, max, bits, is_reproducible) -> session. `max`: the limit of a message, in bytes. `bits`: 0 without
   compression; otherwise this end may send with a window of 2^bits bytes. `is_reproducible`: masks are zeros. */
static int module_new(lua_State *L) {
  bool is_client = lua_toboolean(L, 1), is_reproducible = lua_toboolean(L, 4);
  lua_Integer max = luaL_checkinteger(L, 2), bits = luaL_checkinteger(L, 3);
  Session *s = (Session *)memset(lua_newuserdatauv(L, session_size(is_client), 0), 0, session_size(is_client));
  s->is_open = true;
  s->is_client = is_client;
  s->is_reproducible = is_reproducible;
  s->max = (size_t)max;
  s->bits = (int)bits;
  luaL_setmetatable(L, SESSION);
  return 1;
}

static int session_gc(lua_State *L) {
  session_close((Session *)luaL_checkudata(L, 1, SESSION));
  return 0;
}

/* session:receive([bytes]) adds bytes that have come from the network, and returns the next event; call it again, without
   bytes, until it returns nothing:
     text; or bytes, true        a message
     nil, "ping" | "pong", payload
     nil, "close", code, reason  1005 if there is no code
     nil, "failed", code, why    the other end is to be told the code; nothing follows
     nothing                     more bytes are needed */
static int session_receive(lua_State *L) {
  Session *s = check_session(L);
  size_t size = 0;
  const char *bytes = lua_tolstring(L, 2, &size);
  if (bytes) session_feed(s, bytes, size);
  int results = 0;
  switch (session_next(s)) {
  case EVENT_NONE:
    return 0;
  case EVENT_NO_MEMORY:
    return luaL_error(L, "not enough memory");
  case EVENT_TEXT:
  case EVENT_BINARY:
    lua_pushlstring(L, bytes_first(&s->message), bytes_length(&s->message));
    results = 1;
    if (s->event == EVENT_BINARY) {
      lua_pushboolean(L, 1);
      results = 2;
    }
    break;
  case EVENT_PING:
  case EVENT_PONG:
    lua_pushnil(L);
    lua_pushstring(L, s->event == EVENT_PING ? "ping" : "pong");
    lua_pushlstring(L, bytes_first(&s->control), bytes_length(&s->control));
    results = 3;
    break;
  case EVENT_CLOSE:
    lua_pushnil(L);
    lua_pushstring(L, "close");
    lua_pushinteger(L, s->code);
    lua_pushlstring(L, bytes_first(&s->control), bytes_length(&s->control));
    results = 4;
    break;
  case EVENT_FAILED:
    lua_pushnil(L);
    lua_pushstring(L, "failed");
    lua_pushinteger(L, s->code);
    lua_pushstring(L, s->why);
    results = 4;
    break;
  }
  session_consume(s);
  return results;
}

/* Pushes the bytes of a frame. If this raises, the session is unchanged. It allocates first, because a finalizer may
   run then and send with the same session. */
static int push_frame(lua_State *L, Session *s, uint8_t opcode, bool is_compressed, const char *payload, size_t size) {
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, size + MOST_OF_HEADER);
  if (!session_has_random(s)) return luaL_error(L, "/dev/urandom cannot be read");
  luaL_pushresultsize(&buffer, session_write(s, opcode, is_compressed, payload, size, to));
  return 1;
}

/* __gc of the userdata that holds a compressed message, so that an error frees it. */
static int compressed_gc(lua_State *L) {
  bytes_free((Bytes *)lua_touserdata(L, 1));
  return 0;
}

#define COMPRESSED "runnel.websocket.compressed"

/* From how many bytes on the payload of a frame is not copied behind its header. */
enum { SEPARATE_LEAST = 4096 };

/* Pushes the header of a frame without a mask, and its payload, which is at index 2. */
static int push_parts(lua_State *L, uint8_t opcode, size_t size) {
  char header[MOST_OF_HEADER];
  size_t n = frame_write(&(Frame){.is_last = true, .opcode = opcode, .length = size}, header);
  lua_pushlstring(L, header, n);
  lua_pushvalue(L, 2);
  return 2;
}

/* Pushes a message as a frame, compressed if that makes it shorter; the message is at index 2. */
static int push_message(lua_State *L, Session *s, uint8_t opcode, const char *payload, size_t size) {
  if (!s->bits && !s->is_client && size >= SEPARATE_LEAST) return push_parts(L, opcode, size);
  if (!s->bits || size < DEFLATE_LEAST) return push_frame(L, s, opcode, false, payload, size);
  Bytes *bytes = (Bytes *)lua_newuserdatauv(L, sizeof *bytes, 0);
  *bytes = (Bytes){0};
  luaL_setmetatable(L, COMPRESSED);
  if (!deflate_message(payload, size, s->bits, bytes)) return luaL_error(L, "not enough memory");
  bool is_shorter = bytes_length(bytes) < size;
  if (is_shorter) {
    push_frame(L, s, opcode, true, bytes_first(bytes), bytes_length(bytes));
  } else {
    push_frame(L, s, opcode, false, payload, size);
  }
  bytes_free(bytes);
  return 1;
}

/* session:text(text) -> the bytes to send, and others behind them or nothing; nil if the text is not UTF-8. Only a
   session of a server returns others. */
static int session_text(lua_State *L) {
  Session *s = check_session(L);
  size_t size = 0;
  const char *text = luaL_checklstring(L, 2, &size);
  if (!utf8_is_valid(text, size)) return 0;
  return push_message(L, s, FRAME_TEXT, text, size);
}

/* session:binary(bytes) -> as text */
static int session_binary(lua_State *L) {
  Session *s = check_session(L);
  size_t size = 0;
  const char *bytes = luaL_checklstring(L, 2, &size);
  return push_message(L, s, FRAME_BINARY, bytes, size);
}

static int push_control(lua_State *L, uint8_t opcode) {
  Session *s = check_session(L);
  size_t size = 0;
  const char *payload = luaL_checklstring(L, 2, &size);
  luaL_argcheck(L, size <= MOST_OF_CONTROL, 2, "too long");
  return push_frame(L, s, opcode, false, payload, size);
}

/* session:ping(payload), session:pong(payload) -> the bytes to send; at most 125 bytes of payload */
static int session_ping(lua_State *L) { return push_control(L, FRAME_PING); }
static int session_pong(lua_State *L) { return push_control(L, FRAME_PONG); }

/* session:close([code, reason]) -> the bytes to send; at most 123 bytes of reason. 1005 means no code. */
static int session_close_frame(lua_State *L) {
  Session *s = check_session(L);
  int code = (int)luaL_optinteger(L, 2, CODE_NONE);
  size_t size = 0;
  const char *reason = luaL_optlstring(L, 3, "", &size);
  if (code == CODE_NONE) return push_frame(L, s, FRAME_CLOSE, false, "", 0);
  luaL_argcheck(L, code_is_valid(code), 2, "a code that a close frame may carry expected");
  luaL_argcheck(L, size <= MOST_OF_REASON, 3, "too long");
  char payload[MOST_OF_CONTROL] = {(char)(code >> 8), (char)(code & 0xFF)};
  memcpy(payload + 2, reason, size);
  return push_frame(L, s, FRAME_CLOSE, false, payload, size + 2);
}

/* key() -> a random value for Sec-WebSocket-Key */
static int module_key(lua_State *L) {
  uint8_t bytes[RANDOM_OF_KEY];
  char key[KEY_SIZE];
  if (!random_bytes(bytes, sizeof bytes)) return luaL_error(L, "/dev/urandom cannot be read");
  base64_encode(bytes, sizeof bytes, key);
  lua_pushlstring(L, key, sizeof key);
  return 1;
}

/* accept(key) -> the value of Sec-WebSocket-Accept for a Sec-WebSocket-Key of 24 characters */
static int module_accept(lua_State *L) {
  size_t size = 0;
  const char *key = luaL_checklstring(L, 1, &size);
  luaL_argcheck(L, size == KEY_SIZE, 1, "a key of 24 characters expected");
  char value[ACCEPT_SIZE];
  accept_value(key, value);
  lua_pushlstring(L, value, sizeof value);
  return 1;
}

/* is_code(code) -> whether a close frame may carry the code */
static int module_is_code(lua_State *L) {
  lua_Integer code = luaL_checkinteger(L, 1);
  lua_pushboolean(L, code >= 0 && code <= 65535 && code_is_valid((int)code));
  return 1;
}

__attribute__((visibility("default"))) int luaopen_runnel_websocket_core(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"accept", module_accept}, {"is_code", module_is_code}, {"key", module_key}, {"new", module_new}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"receive", session_receive}, {"text", session_text},         {"binary", session_binary}, {"ping", session_ping},
      {"pong", session_pong},       {"close", session_close_frame}, {"__gc", session_gc},       {NULL, NULL}};
  luaL_checkversion(L);
  (void)luaL_newmetatable(L, SESSION);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  (void)luaL_newmetatable(L, COMPRESSED);
  lua_pushcfunction(L, compressed_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, functions);
  return 1;
}
