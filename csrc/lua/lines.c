/* lua/lines.c: the lines of strings. A line ends with "\n" or "\r\n", which do not belong to it. */
#include <string.h>

#include "channels/chan.h"
#include "lua/check.h"
#include "lua/module.h"

typedef struct Line {
  size_t size, next; /* its bytes; where the next one begins */
  bool has_end;      /* a newline follows */
} Line;

/* The line that begins at text[at]. */
static Line line_at(const char *text, size_t length, size_t at) {
  const char *newline = memchr(text + at, '\n', length - at);
  if (!newline) return (Line){.size = length - at, .next = length};
  size_t size = (size_t)(newline - (text + at));
  return (Line){.size = size - (size > 0 && newline[-1] == '\r'), .next = at + size + 1, .has_end = true};
}

enum { UP_TEXT = 2, UP_AT }; /* upvalues of the iterator; SCHED_SELF is the first one */

static int next_line(lua_State *L) {
  size_t length, at = (size_t)lua_tointeger(L, lua_upvalueindex(UP_AT));
  const char *text = lua_tolstring(L, lua_upvalueindex(UP_TEXT), &length);
  if (at >= length) return 0;
  Line line = line_at(text, length, at);
  lua_pushlstring(L, text + at, line.size);
  lua_pushinteger(L, (lua_Integer)line.next);
  lua_replace(L, lua_upvalueindex(UP_AT));
  return 1;
}

/* each_line(text) -> an iterator over the lines of the text. A last line without a newline counts, too. */
static int core_each_line(lua_State *L) {
  check_dot(L);
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_insert(L, 1);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, next_line, UP_AT);
  return 1;
}

/* offer_lines(ch, text, from, max) -> next, state: puts the lines of the text on a channel, from position `from` on,
   until a put would have to wait or a line has more than `max` bytes. A line without a newline is not put. `next` is
   the position after the last line that was put. `state` is true if there is no further newline, nil if the next put
   would have to wait or its line is too long, false if the channel is closed. In Lua this would take three calls for
   each line. */
static int internal_offer_lines(lua_State *L) {
  Chan *ch = check_looked(L, 1, "offer_lines", "offer_lines(ch, text, from, max)", LOOK_CHANNEL);
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  lua_Integer from = luaL_checkinteger(L, 3);
  luaL_argcheck(L, from >= 1 && (lua_Unsigned)from <= length + 1, 3, "not a position in the text");
  lua_Integer max = luaL_checkinteger(L, 4);
  lua_settop(L, 3);
  size_t at = (size_t)from - 1;
  PutResult result = PUT_DONE;
  Line line;
  while ((line = line_at(text, length, at)).has_end) {
    if ((lua_Integer)line.size > max) {
      result = PUT_WAIT;
      break;
    }
    lua_pushlstring(L, text + at, line.size);
    result = chan_put(L, ch, 1, 4);
    lua_settop(L, 3);
    if (result != PUT_DONE) break;
    at = line.next;
  }
  lua_pushinteger(L, (lua_Integer)at + 1);
  if (result == PUT_WAIT) lua_pushnil(L);
  else lua_pushboolean(L, result == PUT_DONE);
  return 2;
}

void lua_lines_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"each_line", core_each_line}, {NULL, NULL}};
  module_register(L, functions);
}

void lua_internal_lines_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"offer_lines", internal_offer_lines}, {NULL, NULL}};
  module_register(L, functions);
}
