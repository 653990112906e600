/* inspect.c: see inspect.h. */
#include "inspect.h"

#include <lauxlib.h>

#include "lua_face.h"

/* traceback(result channel) -> the traceback of its go block | nil, when that has ended */
static int inspect_traceback(lua_State *L) {
  const Chan *ch = face_check_chan(L, 1, "traceback", "traceback(result channel)");
  if (!(ch->flags & CHAN_RESULT)) return 0;
  const Go *go = (const Go *)ch;
  luaL_traceback(L, go->alt.co, NULL, 0);
  return 1;
}

int inspect_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"traceback", inspect_traceback}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
