/* A Lua interpreter to link with a compiler's sanitizers: lua [-e code]... [script [arguments]]
   It closes the state at the end, also after an error, so that every leak reported is a real one. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state that Ctrl-C interrupts. */
static lua_State *running;

static void stop(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

/* As lua5.4 does: raises an error in the code that runs; a second Ctrl-C ends the process. */
static void on_interrupt(int number) {
  (void)signal(number, SIG_DFL);
  const int any = LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT;
  lua_sethook(running, stop, any, 1); /* NOLINT(bugprone-signal-handler): Lua's own does it */
}

static int with_traceback(lua_State *L) {
  const char *message = luaL_tolstring(L, 1, NULL);
  luaL_traceback(L, L, message, 1);
  return 1;
}

/* Calls the chunk below the n arguments on top of the stack. If the chunk could not be loaded, prints the message that
   is there instead. */
static int run(lua_State *L, int loaded, int n) {
  if (loaded == LUA_OK) {
    int handler = lua_gettop(L) - n;
    lua_pushcfunction(L, with_traceback);
    lua_insert(L, handler);
    if (lua_pcall(L, n, 0, handler) == LUA_OK) {
      lua_remove(L, handler);
      return EXIT_SUCCESS;
    }
  }
  (void)fprintf(stderr, "%s\n", lua_tostring(L, -1));
  return EXIT_FAILURE;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  if (!L) return EXIT_FAILURE;
  lua_warning(L, "@off", 0); /* as lua5.4 */
  luaL_openlibs(L);
  running = L;
  (void)signal(SIGINT, on_interrupt);
  /* A sanitizer's report ends the process without flushing. Line buffering is not enough: with it, the C library does
     not return errors of writing to the script. */
  (void)setvbuf(stdout, NULL, _IONBF, 0);

  int status = EXIT_SUCCESS;
  int script = 1;
  while (script + 1 < argc && strcmp(argv[script], "-e") == 0) script += 2;
  int first = script < argc ? script : 0; /* `arg` is there for -e, too */
  lua_newtable(L);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - first);
  }
  lua_setglobal(L, "arg");
  script = 1;
  while (status == EXIT_SUCCESS && script + 1 < argc && strcmp(argv[script], "-e") == 0) {
    const char *code = argv[script + 1];
    status = run(L, luaL_loadbuffer(L, code, strlen(code), "=(command line)"), 0);
    script += 2;
  }
  if (status == EXIT_SUCCESS && script < argc) {
    int loaded = luaL_loadfile(L, strcmp(argv[script], "-") == 0 ? NULL : argv[script]);
    int n = loaded == LUA_OK ? argc - script - 1 : 0;
    luaL_checkstack(L, n + 1, "too many arguments"); /* and the handler of run */
    for (int i = 1; i <= n; i++) lua_pushstring(L, argv[script + i]);
    status = run(L, loaded, n);
  }

  (void)signal(SIGINT, SIG_DFL);
  lua_close(L);
  return status;
}
