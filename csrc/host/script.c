/* script.c: see script.h. */
#include "host/script.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "host/bundle/carried.h"
#include "host/runtime/call.h"
#include "host/runtime/core.h"
#include "host/runtime/interrupt.h"

/* Requires a module and pushes its value. */
static void push_module(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

/* Requires a module and pushes one of its functions, above the module. */
static void push_function(lua_State *L, const char *module, const char *name) {
  push_module(L, module);
  lua_getfield(L, -1, name);
}

/* Protected: (two C strings) */
static int tell_monitor(lua_State *L) {
  const char *how = lua_touserdata(L, 1), *text = lua_touserdata(L, 2);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "runnel.monitor.core") != LUA_TTABLE) return 0;
  push_function(L, "runnel.host.monitor_page", "ending");
  lua_pushfstring(L, "%s%s", how, text ? text : "");
  lua_call(L, 1, 0);
  return 0;
}

/* Pages of a monitor show what has ended the program. */
static void ends_by(lua_State *L, const char *how, const char *text) {
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  lua_pushcfunction(L, tell_monitor);
  lua_pushlightuserdata(L, (void *)how);
  lua_pushlightuserdata(L, (void *)text);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* Returns true if `status` is LUA_OK. Otherwise pops the message on top of L and writes it. */
static bool succeeded(lua_State *L, const Options *o, int status) {
  if (status == LUA_OK) return true;
  ends_by(L, "the program has ended with an error: ", lua_tostring(L, -1));
  core_report_unhandled(L); /* earlier errors, which may be the cause */
  call_complain(o->program, lua_tostring(L, -1));
  lua_pop(L, 1);
  return false;
}

/* Runs the chunk below `nargs` arguments on top of L: directly, or in a simulation. */
static int run_chunk(lua_State *L, const Options *o, int nargs) {
  if (!o->simulated) return call_run(L, nargs, 0);
  int base = lua_gettop(L) - nargs;
  push_module(L, "runnel.host.simulate");
  lua_insert(L, base);
  lua_pushinteger(L, o->seeded ? (lua_Integer)o->seed : 1);
  lua_insert(L, base + 2);
  lua_pushboolean(L, !o->no_drain);
  lua_insert(L, base + 3);
  int status = call_run(L, nargs + 3, 1);
  if (status != LUA_OK || lua_isstring(L, -1)) return status == LUA_OK ? LUA_ERRRUN : status;
  lua_pop(L, 1);
  return LUA_OK;
}

static int run_text(lua_State *L, const Options *o, const char *text, const char *name) {
  int status = luaL_loadbuffer(L, text, strlen(text), name);
  return status == LUA_OK ? run_chunk(L, o, 0) : status;
}

static int run_file(lua_State *L, const Options *o, const char *path) {
  int status = luaL_loadfile(L, path);
  return status == LUA_OK ? run_chunk(L, o, 0) : status;
}

/* Protected: (path, records or nil) */
static int start_trace(lua_State *L) {
  push_function(L, "runnel", "trace");
  lua_pushvalue(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "records");
  lua_call(L, 2, 0);
  return 0;
}

/* Calls a function of a module with the argument of a protected function, and returns no results from that. */
static int call_with_argument(lua_State *L, const char *module, const char *name) {
  push_function(L, module, name);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

/* Protected: (path) */
static int start_profile(lua_State *L) { return call_with_argument(L, "runnel.profile.profile_recorder", "record"); }

/* Protected: (port) */
static int start_monitor(lua_State *L) { return call_with_argument(L, "runnel.host.monitor_page", "start"); }

bool script_watch(lua_State *L, const Options *o) {
  if (o->trace) {
    lua_pushcfunction(L, start_trace);
    lua_pushstring(L, o->trace);
    if (o->trace_records) lua_pushinteger(L, (lua_Integer)o->trace_records);
    else lua_pushnil(L);
    if (!succeeded(L, o, lua_pcall(L, 2, 0, 0))) return false;
    interrupt_end_trace(L);
  }
  if (o->profile) {
    lua_pushcfunction(L, start_profile);
    lua_pushstring(L, o->profile);
    if (!succeeded(L, o, lua_pcall(L, 1, 0, 0))) return false;
    interrupt_end_trace(L);
  }
  if (!o->monitored) return true;
  lua_pushcfunction(L, start_monitor);
  lua_pushinteger(L, o->monitor_port);
  return succeeded(L, o, lua_pcall(L, 1, 0, 0));
}

bool script_init(lua_State *L, const Options *o) {
  if (o->no_environment) return true;
  const char *name = "=LUA_INIT" LUA_VERSUFFIX, *init = getenv(name + 1);
  if (!init) init = getenv((name = "=LUA_INIT") + 1);
  if (!init) return true;
  return succeeded(L, o, init[0] == '@' ? run_file(L, o, init + 1) : run_text(L, o, init, name));
}

/* -l mod, -l g=mod */
static int require_option(lua_State *L, const char *argument) {
  const char *sign = strchr(argument, '=');
  lua_getglobal(L, "require");
  lua_pushstring(L, sign ? sign + 1 : argument);
  int status = call_run(L, 1, 1);
  if (status != LUA_OK) return status;
  lua_pushglobaltable(L);
  if (sign) lua_pushlstring(L, argument, (size_t)(sign - argument));
  else lua_pushstring(L, argument);
  lua_rotate(L, -3, -1); /* global table, name, module */
  lua_settable(L, -3);
  lua_pop(L, 1);
  return LUA_OK;
}

bool script_options(lua_State *L, const Options *o, char **argv) {
  for (int i = 1; i < o->script && argv[i]; i++) {
    const char *argument;
    int status = LUA_OK;
    switch (options_next(argv, &i, &argument)) {
    case 'e':
      status = run_text(L, o, argument, "=(command line)");
      break;
    case 'l':
      status = require_option(L, argument);
      break;
    case 'W':
      lua_warning(L, "@on", 0);
      break;
    default:
      break;
    }
    if (!succeeded(L, o, status)) return false;
  }
  return true;
}

/* Pushes the arguments in the global `arg` and returns their number. */
static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) luaL_error(L, "'arg' is not a table");
  int n = (int)luaL_len(L, -1);
  luaL_checkstack(L, n + 3, "too many arguments to script");
  int table = lua_gettop(L);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return n;
}

bool script_run(lua_State *L, const Options *o, const char *path) {
  int status = LUA_OK;
  if (o->command) push_module(L, o->command);
  else status = luaL_loadfile(L, path);
  const char *meant = status == LUA_ERRFILE && path ? options_meant(path) : NULL;
  if (meant) {
    lua_pushfstring(L, "%s; did you mean 'runnel %s'?", lua_tostring(L, -1), meant);
    lua_remove(L, -2);
  }
  if (status == LUA_OK) status = run_chunk(L, o, push_arguments(L));
  return succeeded(L, o, status);
}

bool script_run_bundle(lua_State *L, const Options *o, const Bundle *b) {
  int status = carried_load_script(L, b);
  if (status == LUA_OK) status = run_chunk(L, o, push_arguments(L));
  return succeeded(L, o, status);
}

/* () -> a text about the go blocks parked at the end, or nil */
static int drain(lua_State *L) {
  push_function(L, "runnel.host.blocks", "drain");
  lua_call(L, 0, 1);
  return 1;
}

static bool all_handled(lua_State *L) {
  core_finish(L);
  return core_is_well();
}

bool script_drain(lua_State *L, const Options *o) {
  if (!core_sched()) return true;
  if (o->no_drain) {
    ends_by(L, "the program has ended by itself", NULL);
    return all_handled(L);
  }
  lua_pushcfunction(L, drain);
  if (!succeeded(L, o, call_run(L, 0, 1))) return false;
  const char *text = o->deadlock == DEADLOCK_IGNORE ? NULL : lua_tostring(L, -1);
  if (text) call_complain(o->program, text);
  ends_by(L, text ? "the program has ended: " : "the program has ended by itself", text);
  bool fails = text && o->deadlock == DEADLOCK_ERROR;
  lua_pop(L, 1);
  return all_handled(L) && !fails;
}
