/* lua_ending.c: core.internal's functions for child processes that are not to outlive the program (port/ending.h). */
#include "port/ending.h"

#include <unistd.h>

#include "lua/check.h"
#include "lua/module.h"
#include "port/sigterm.h"

#define ENDING_META "runnel.ending"

typedef struct Ending {
  EndingChild *child; /* NULL once it is removed */
  pid_t of;           /* the process that has made it: one that it has forked must not end its children */
} Ending;

static Ending *check_ending(lua_State *L) { return (Ending *)luaL_checkudata(L, 1, ENDING_META); }

/* ending(target, signal) -> ending: the process, or the group of a negative number, gets the signal when the program
   ends, however that happens, or when the result is collected. */
static int internal_ending(lua_State *L) {
  int target = (int)luaL_checkinteger(L, 1), signal = (int)luaL_checkinteger(L, 2);
  Ending *ending = (Ending *)lua_newuserdatauv(L, sizeof *ending, 0);
  *ending = (Ending){.of = getpid()};
  luaL_setmetatable(L, ENDING_META);
  ending->child = ending_add(target, signal);
  if (!ending->child) return luaL_error(L, "not enough memory");
  return 1;
}

/* held(f, ...) -> what pcall(f, ...) returns. Nothing ends the program meanwhile, so that f can start a process and call
   `ending` for it. */
static int internal_held(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_pushboolean(L, true);
  lua_insert(L, 1);
  sigset_t before;
  ending_hold(&before);
  int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
  ending_release(&before);
  if (status != LUA_OK) {
    lua_pushboolean(L, false);
    lua_replace(L, 1);
  }
  return lua_gettop(L);
}

/* renew_endings(): after a library has restored the default action of a signal. */
static int internal_renew_endings(lua_State *L) {
  (void)L;
  ending_renew();
  sigterm_renew();
  return 0;
}

/* ending:set(signal): it gets this signal instead. */
static int ending_set(lua_State *L) {
  const Ending *ending = check_ending(L);
  int signal = (int)luaL_checkinteger(L, 2);
  if (ending->child) atomic_store(&ending->child->signal, signal);
  return 0;
}

/* ending:remove(): the process has ended, or may outlive the program. */
static int ending_forget(lua_State *L) {
  Ending *ending = check_ending(L);
  if (ending->child && ending->of == getpid()) ending_remove(ending->child);
  ending->child = NULL;
  return 0;
}

/* __gc */
static int ending_gc(lua_State *L) {
  const Ending *ending = check_ending(L);
  if (ending->child && ending->of == getpid()) {
    (void)kill(atomic_load(&ending->child->target), atomic_load(&ending->child->signal));
  }
  return ending_forget(L);
}

void lua_ending_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"ending", internal_ending}, {"held", internal_held}, {"renew_endings", internal_renew_endings}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"set", ending_set}, {"remove", ending_forget}, {"__gc", ending_gc}, {NULL, NULL}};
  module_register(L, functions);
  luaL_newmetatable(L, ENDING_META);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
