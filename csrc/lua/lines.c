/* lua/lines.c: putting the lines of a text on a channel, for runnel.uv: what would else be three calls for each line. */
#include <string.h>

#include "core/chan.h"
#include "lua/face.h"

/* offer_lines(ch, text, from) -> next, state: puts the lines of the text that end in it on a channel, each without its
   newline, from position `from` on, as long as that can be done at once. `next` is the position after the last one that was
   put. `state` is true when there is no further newline, nil when the next put would have to wait, false when the channel is
   closed. */
static int core_offer_lines(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "offer_lines", "offer_lines(ch, text, from)");
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  lua_Integer from = luaL_checkinteger(L, 3);
  luaL_argcheck(L, from >= 1 && (lua_Unsigned)from <= length + 1, 3, "not a position in the text");
  lua_settop(L, 3);
  size_t at = (size_t)from - 1;
  PutResult result = PUT_DONE;
  const char *newline;
  while ((newline = memchr(text + at, '\n', length - at)) != NULL) {
    lua_pushlstring(L, text + at, (size_t)(newline - (text + at)));
    result = chan_put(L, ch, 1, 4);
    lua_settop(L, 3);
    if (result != PUT_DONE) break;
    at = (size_t)(newline - text) + 1;
  }
  lua_pushinteger(L, (lua_Integer)at + 1);
  if (result == PUT_WAIT) lua_pushnil(L);
  else lua_pushboolean(L, result == PUT_DONE);
  return 2;
}

void lua_lines_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"offer_lines", core_offer_lines},
      {NULL, NULL},
  };
  face_register(L, functions);
}
