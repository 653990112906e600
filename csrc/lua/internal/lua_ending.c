/* lua_ending.c: core.internal's functions for child processes that are not to outlive the program (port/ending.h), and
   for the former actions of signals (port/former.h). */
#include "port/ending.h"

#include <unistd.h>

#include "lua/check.h"
#include "lua/module.h"
#include "port/former.h"
#include "port/sigterm.h"

#define ENDING_META "runnel.ending"
#define FORMER_META "runnel.former"

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

/* held(f, ...) -> what pcall(f, ...) returns. Nothing ends the program meanwhile, so that f can start a process and
   call `ending` for it. */
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

/* renew_endings(): after a library has let go of a signal. */
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

/* former(signal) -> former: keeps its present action, before luv catches it. */
static int internal_former(lua_State *L) {
  int number = (int)luaL_checkinteger(L, 1);
  int *former = (int *)lua_newuserdatauv(L, sizeof *former, 0);
  *former = number;
  luaL_setmetatable(L, FORMER_META);
  former_keep(number);
  return 1;
}

static int *check_former(lua_State *L) { return (int *)luaL_checkudata(L, 1, FORMER_META); }

/* former:caught(): luv catches the signal. */
static int former_is_caught(lua_State *L) {
  former_caught(*check_former(L));
  return 0;
}

/* former:restore(), and __gc: luv's handle does not catch the signal any more. */
static int former_end(lua_State *L) {
  int *former = check_former(L);
  if (*former == 0) return 0;
  former_restore(*former);
  *former = 0;
  return 0;
}

void lua_ending_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"ending", internal_ending},
                                       {"former", internal_former},
                                       {"held", internal_held},
                                       {"renew_endings", internal_renew_endings},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"set", ending_set}, {"remove", ending_forget}, {"__gc", ending_gc}, {NULL, NULL}};
  module_register(L, functions);
  luaL_newmetatable(L, ENDING_META);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const luaL_Reg former[] = {
      {"caught", former_is_caught}, {"restore", former_end}, {"__gc", former_end}, {NULL, NULL}};
  luaL_newmetatable(L, FORMER_META);
  luaL_setfuncs(L, former, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
