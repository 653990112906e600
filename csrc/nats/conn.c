/* conn.c: arguments and results shared by the whole module; see conn.h. */
#include "nats/conn.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

/* The longest time, in ms: a hundred years. */
#define LONGEST_MS 3155760000000.0

int64_t conn_ms(lua_State *L, int at) {
  lua_Number ms = luaL_checknumber(L, at);
  return ms >= 1 ? (int64_t)(ms < LONGEST_MS ? ms : LONGEST_MS) : 1;
}

int conn_int(lua_State *L, int at) {
  lua_Integer n = luaL_checkinteger(L, at);
  return n > INT_MAX ? INT_MAX : (int)n;
}

int conn_fail(lua_State *L, natsStatus status) {
  lua_pushnil(L);
  lua_pushstring(L, natsStatus_GetText(status));
  return 2;
}

int conn_refuse(lua_State *L, const char *format, ...) {
  va_list args;
  lua_pushnil(L);
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_pushboolean(L, 1);
  return 3;
}

const char *conn_plain_text(const char *text, natsStatus status) {
  const char *after = *text == '(' ? strstr(text, "): ") : NULL;
  if (after) text = after + 3;
  return *text ? text : natsStatus_GetText(status);
}
