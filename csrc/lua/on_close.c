/* on_close.c: a function that is called when a channel closes, for runnel.uv, whose streams stop reading then. A go block
   that waits for done() would do the same, but takes more than a kilobyte, and every stream would have one. */
#include "core/chan.h"
#include "lua/face.h"

/* on_close(ch, f) -> before: calls f(), which must not park, at once when ch closes, or now if it is closed already. There is
   one such function of a channel; `before`, or nil, is the one that this replaces. An error in it goes to on_error; without
   memory it may not be called. */
static int core_on_close(lua_State *L) {
  Chan *ch = face_check_chan(L, 1, "on_close", "on_close(ch, f)");
  face_check_callable(L, 2, "on_close");
  lua_settop(L, 2);
  attr_push(L, 1, ATTR_ON_CLOSE);
  lua_insert(L, 2);
  attr_set(L, 1, ATTR_ON_CLOSE);
  if (ch->flags & CHAN_CLOSED) chan_call_on_close(L, 1);
  return 1;
}

void on_close_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"on_close", core_on_close},
      {NULL, NULL},
  };
  face_register(L, functions);
}
