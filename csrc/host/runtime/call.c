/* call.c: see call.h. */
#include "host/runtime/call.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>

#include "errors/error.h"
#include "host/runtime/core.h"
#include "host/runtime/interrupt.h"

/* Protected: () -> a list of all go blocks, as text. */
static int list_blocks(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.host.blocks");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "all");
  lua_call(L, 0, 1);
  return 1;
}

/* Pushes the prompt's text for the table at index 1. Returns false if there is no prompt. */
static bool describe_table(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, CALL_DESCRIBE_KEY);
  lua_pushvalue(L, 1);
  if (!lua_isnil(L, -2) && lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isstring(L, -1)) return true;
  lua_settop(L, 1);
  return false;
}

/* Adds what else is to be said of the error at index 1 to the text on top of L: the traceback of a thread from which it
   comes, and errors that are handled together with it. */
static void add_thread(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "runnel.internal.errors.more") == LUA_TTABLE) {
    lua_getfield(L, -1, "add");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -5);
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) {
      lua_replace(L, -4);
      lua_pop(L, 2);
      return;
    }
  }
  lua_pop(L, 2);
}

/* The message handler: (error) -> a text with the traceback, and after Ctrl-C with the go blocks. */
static int describe(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (!message) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    bool is_plain = lua_istable(L, 1) && luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL;
    if (!is_plain || (!describe_table(L) && !error_push_text(L, 1))) /* shows its fields; lua5.4 does not */
      lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    message = lua_tostring(L, -1);
  }
  luaL_traceback(L, L, message, 1);
  add_thread(L);
  if (!interrupt_came() || !core_sched()) return 1;
  lua_pushcfunction(L, list_blocks);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK) lua_concat(L, 2);
  else lua_pop(L, 1); /* uncovered: only when memory runs out */
  return 1;
}

int call_run(lua_State *L, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, describe);
  lua_insert(L, base);
  interrupt_catch(L);
  int status = lua_pcall(L, nargs, nresults, base);
  interrupt_release(L);
  lua_remove(L, base);
  return status;
}

void call_complain(const char *program, const char *message) {
  (void)fflush(stdout);
  if (program) (void)fprintf(stderr, "%s: ", program);
  (void)fprintf(stderr, "%s\n", message ? message : "(no message)");
}
