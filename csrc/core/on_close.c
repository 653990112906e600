/* on_close.c: the function that is called when a channel closes. A go block that waits for done() could do the same,
   but it takes more than a kilobyte, and every stream of runnel.uv would need one. */
#include "core/error.h"

enum { STACK_FOR_CALL = 8 }; /* slots, those of an error's report included */

void chan_call_on_close(lua_State *L, int at) {
  int top = lua_gettop(L);
  chan_extra(L, at, EXTRA_ON_CLOSE);
  if (lua_isnil(L, -1) || !lua_checkstack(L, STACK_FOR_CALL)) {
    lua_settop(L, top);
    return;
  }
  lua_pushnil(L);
  chan_set_extra(L, at, EXTRA_ON_CLOSE); /* nothing is added to the table, so nothing is allocated */
  error_call(L, 0, "a function that is called on closing", at);
}
