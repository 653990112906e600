/* core.c: see core.h. */
#include "host/runtime/core.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "base/random.h"
#include "errors/unhandled.h"
#include "librunnel/modules.h"
#include "port/standard.h"
#include "tracing/trace_switch.h"

int luaopen_runnel_core(lua_State *L);

/* The modules of lua/runnel/host/: a generated array. */
extern const Module host_modules[];

/* The registry key of the scheduler's userdata. */
#define SCHED_KEY "runnel.host.sched"

/* The executable has one state, and a signal handler cannot get it as an argument. */
static Sched *sched;

static bool inspected; /* there will be a prompt */

static bool errors_pass; /* unhandled errors do not change the exit status */

/* How long an error waits for a take at the prompt. It is short, since the user wants to see the error soon. */
static const int64_t PROMPT_GRACE = 50 * CLOCK_MS;

void core_let_errors_pass(void) { errors_pass = true; }

Sched *core_sched(void) { return sched; }

/* The registry key of the seed, if there is one. */
#define SEED_KEY "runnel.host.seed"

void core_seed(lua_State *L, long long seed) {
  lua_pushinteger(L, (lua_Integer)seed);
  lua_setfield(L, LUA_REGISTRYINDEX, SEED_KEY);
}

void core_push_sched(lua_State *L) { lua_getfield(L, LUA_REGISTRYINDEX, SCHED_KEY); }

void core_push_function(lua_State *L, lua_CFunction f) {
  core_push_sched(L);
  lua_pushcclosure(L, f, 1);
}

/* Protected, at the end of the program: ends its threads and receives their errors. */
static int finish_threads(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "runnel.threads.start") != LUA_TTABLE) return 0;
  lua_getfield(L, -1, "finish");
  lua_call(L, 0, 0);
  return 0;
}

void core_finish(lua_State *L) {
  if (!sched || !lua_checkstack(L, LUA_MINSTACK)) return;
  lua_pushcfunction(L, finish_threads);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  core_report_unhandled(L);
}

/* Protected. */
static int report_unhandled(lua_State *L) {
  unhandled_report_all(L, sched);
  return 0;
}

void core_report_unhandled(lua_State *L) {
  if (!sched || !lua_checkstack(L, LUA_MINSTACK)) return;
  core_push_function(L, report_unhandled);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* () keeps a list of all channels, for the commands of the prompt. */
static int list_channels(lua_State *L) {
  trace_hold(L, sched, TRACE_LIST, 0);
  return 0;
}

/* Loads runnel.core, and stores its scheduler. */
static int open_core(lua_State *L) {
  luaopen_runnel_core(L);
  lua_getfield(L, -1, "run");
  lua_getupvalue(L, -1, 1);
  sched = (Sched *)lua_touserdata(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, SCHED_KEY);
  if (lua_getfield(L, LUA_REGISTRYINDEX, SEED_KEY) == LUA_TNUMBER)
    random_seed(&sched->world.random, (uint64_t)lua_tointeger(L, -1));
  lua_pop(L, 2);
  if (inspected) {
    core_push_function(L, list_channels);
    lua_call(L, 0, 0);
  }
  sched->errors_pass = errors_pass;
  if (inspected) sched->grace = PROMPT_GRACE;
  return 1;
}

/* Pops the driver on top of the stack and sets it, unless one is set already. Unlike rn.driver it may be called
   anywhere: after a script has required luv, the next wait handles luv's events. */
static void drive_by(lua_State *L) {
  core_push_sched(L);
  if (lua_getiuservalue(L, -1, SCHED_DRIVER) == LUA_TNIL) {
    lua_pushvalue(L, -3);
    lua_setiuservalue(L, -3, SCHED_DRIVER);
  }
  lua_pop(L, 3);
}

/* Requires a module on L; its value is left there. */
static void require(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

/* Protected, on the main thread: (luv's own loader or nil): loads luv, by the later searchers if it has none, and then
   the driver for luv. */
static int load_luv(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_insert(L, 1);
  lua_setfield(L, 1, "luv");
  require(L, "luv");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "luv"); /* the driver requires it */
  require(L, "runnel.core");
  require(L, "runnel.driver.luv");
  drive_by(L);
  lua_settop(L, 2);
  return 1;
}

/* luv runs all callbacks on the coroutine that has loaded it. A go block's coroutine may be parked or dead by then, so
   luv is loaded on the main thread. Upvalue: luv's own loader, if it is in this program (carried.h), or nil. */
static int open_luv(lua_State *L) {
  if (!standard_has_room()) return luaL_error(L, "%s: luv needs up to 10 file descriptors", strerror(errno));
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main_thread = lua_tothread(L, -1);
  luaL_checkstack(main_thread, LUA_MINSTACK, NULL);
  lua_pushcfunction(main_thread, load_luv);
  lua_pushvalue(L, lua_upvalueindex(1));
  if (main_thread != L) lua_xmove(L, main_thread, 1);
  int status = lua_pcall(main_thread, 1, 1, 0);
  if (main_thread != L) lua_xmove(main_thread, L, 1);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* Loads the driver for luv; upvalue: the module's own loader. The driver requires luv, and requiring luv loads the
   driver. So luv is loaded first; otherwise there would be two drivers. */
static int open_luv_driver(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "luv") == LUA_TNIL) {
    lua_getglobal(L, "pcall"); /* if luv cannot be loaded, the module raises the better error */
    lua_getglobal(L, "require");
    lua_pushliteral(L, "luv");
    lua_call(L, 2, 0);
    if (lua_getfield(L, 3, "runnel.driver.luv") != LUA_TNIL) return 1;
  }
  lua_settop(L, 2); /* name, where it was found */
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

/* Protected: () writes the trace and the profile, if they are being recorded. */
static int end_trace(lua_State *L) {
  static const char *const recorders[] = {"runnel.tracing.trace_recorder", "runnel.profile.profile_recorder"};
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (size_t i = 0; i < sizeof recorders / sizeof *recorders; i++) {
    if (lua_getfield(L, 1, recorders[i]) == LUA_TTABLE) {
      lua_getfield(L, -1, "at_end");
      lua_call(L, 0, 0);
    }
    lua_settop(L, 1);
  }
  return 0;
}

void core_end_trace(lua_State *L) {
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  lua_pushcfunction(L, end_trace);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
}

bool core_is_well(void) { return !sched || errors_pass || sched->printed == 0; }

/* Replaces os.exit, which may exit without closing the state: ends threads, reports unhandled errors, ends the trace,
   and exits. Without a status it is the script's exit status. Upvalue: Lua's os.exit. */
static int exit_after_reports(lua_State *L) {
  core_finish(L);
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 2);
    lua_pushboolean(L, core_is_well());
    lua_replace(L, 1);
  }
  core_end_trace(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0; /* uncovered: os.exit does not return */
}

/* Replaces a loader in package.preload, which is on top of the stack; the old one, or nil, is the new one's upvalue. */
static void wrap_loader(lua_State *L, const char *name, lua_CFunction loader) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, loader, 1);
  lua_setfield(L, -2, name);
}

/* The last searcher of `require`, (name) -> what its error says of a misspelt name of a module of runnel, or nil. */
static int search_misspelt(lua_State *L) {
  lua_settop(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.internal.misspelt");
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) return 0;
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

static void add_searcher(lua_State *L) {
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_getfield(L, -1, "searchers");
  lua_pushcfunction(L, search_misspelt);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 2);
}

void core_preload(lua_State *L, bool for_prompt) {
  inspected = for_prompt;
  modules_preload(L, runnel_modules);
  modules_preload(L, host_modules);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  add_searcher(L);
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "runnel.core");
  wrap_loader(L, "luv", open_luv);
  wrap_loader(L, "runnel.driver.luv", open_luv_driver);
  lua_pop(L, 1);
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_getfield(L, -1, "exit");
  lua_pushcclosure(L, exit_after_reports, 1);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}
