/* A program without a loop of its own: it waits for what a script sends on two channels, until nothing can come any
   more. Errors of the script that nobody handles go to a function of the program.

     cc -o waits waits.c $(pkg-config --cflags --libs runnel) && ./waits */
#include <lauxlib.h>
#include <lualib.h>
#include <runnel.h>
#include <stdio.h>

static const char script[] = "local rn = require 'runnel' local drinks, meals = ... "
                             "rn.go(function() for i = 1, 3 do rn.sleep(20) drinks:put('tea ' .. i) end end) "
                             "rn.go(function() rn.sleep(30) meals:put 'soup' error 'the stove is cold' end)";

static void report(void *data, const char *error, const char *where, const char *traceback) {
  printf("%s: %s, in %s\n%s\n", (const char *)data, error, where, traceback ? traceback : "");
}

int main(void) {
  const char *names[] = {"drink", "meal"};
  runnel_op takes[2] = {{NULL, 0}, {NULL, 0}};
  int code = RUNNEL_OK, done = 0;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (runnel_open(L) != RUNNEL_OK || runnel_on_error(L, report, "kitchen") != RUNNEL_OK) return 1;
  if (luaL_loadstring(L, script) != LUA_OK) return 1;
  for (int i = 0; i < 2; i++) {
    if (runnel_chan_new(L, RUNNEL_FIXED, 0, &takes[i].ch) != RUNNEL_OK) return 1;
    if (runnel_chan_push(L, takes[i].ch) != RUNNEL_OK) return 1;
  }
  if (runnel_go(L, 2, NULL) != RUNNEL_OK) return 1;
  for (; (code = runnel_alts(L, takes, 2, 0, -1, &done)) == RUNNEL_OK; lua_pop(L, 1)) {
    printf("%s: %s\n", names[done], lua_tostring(L, -1));
  }
  printf("%s\n", runnel_strerror(code));
  lua_close(L); /* reports the errors that are left */
  return code == RUNNEL_IDLE ? 0 : 1;
}
