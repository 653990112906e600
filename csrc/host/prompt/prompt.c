/* prompt.c: see prompt.h. */
#include "host/prompt/prompt.h"

#include <lauxlib.h>
#include <locale.h>
#include <stdio.h>

#include "host/prompt/editor.h"
#include "host/runtime/call.h"
#include "host/runtime/interrupt.h"

/* Protected: (program's name) */
static int start(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.host.live_prompt");
  lua_call(L, 1, 1);
  lua_insert(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

bool prompt_run(lua_State *L, const char *program) {
  (void)setlocale(LC_CTYPE, ""); /* wcwidth needs it */
  interrupt_at_prompt(L);
  interrupt_catch(NULL); /* between reading and running, Ctrl-C must not end the session; it ends commands as :watch */
  lua_pushcfunction(L, start);
  lua_pushstring(L, program);
  int status = lua_pcall(L, 1, 0, 0);
  editor_close();
  if (status != LUA_OK) call_complain(program, lua_tostring(L, -1));
  lua_settop(L, 0);
  (void)fflush(stdout);
  return status == LUA_OK;
}
