/* internal.c: core.internal, a table of functions that only the library's own Lua modules call. Programs
   must not use them; they may change at any time. The other files of this folder add to it: internal_go.c the functions
   about go blocks, moving.c those that move values. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/loaded.h"
#include "base/random.h"
#include "channels/chan.h"
#include "core/attr.h"
#include "csv/csv.h"
#include "errors/error.h"
#include "errors/name.h"
#include "errors/origin.h"
#include "errors/unhandled.h"
#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/ps.h"
#include "states/limits.h"
#include "states/shared_handle.h"
#include "states/shared_inbox.h"
#include "json/json.h"

/* ---- channels ---- */

/* on_close(ch, f) -> before: calls f(), which must not park, at once when ch closes, or now if it is closed already. A
   channel has one such function; `before`, or nil, is the one that f replaces. An error in f goes to on_error. If
   memory runs out, f may not be called. */
static int internal_on_close(lua_State *L) {
  Chan *ch = check_looked(L, 1, "on_close", "on_close(ch, f)", LOOK_CHANNEL);
  check_callable(L, 2, "on_close");
  lua_settop(L, 2);
  attr_push(L, 1, ATTR_ON_CLOSE);
  lua_insert(L, 2);
  attr_set(L, 1, ATTR_ON_CLOSE);
  if (chan_is_shared(ch)) shared_inbox_watch(L, ch, NULL);
  else if (ch->flags & CHAN_CLOSED) chan_notify_closed(L, 1);
  return 1;
}

/* ---- errors ---- */

/* raise(err): raises an error; a string gets the position of the program's line that led here. */
static int internal_raise(lua_State *L) {
  lua_settop(L, 1);
  return error_raise(L);
}

/* reports { deadlock = f, leak = g }: sets the functions that write these errors, or return nil. f(waiting, what,
   is_stuck) gets the description of the wait outside any go block (inspect_push_waiting). */
static int internal_reports(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_REPORTS);
  return 0;
}

/* waits() -> list of the go blocks, as in ps, with what such errors need */
static int internal_waits(lua_State *L) {
  ps_push_report(L);
  return 1;
}

/* name_of(ch) -> its name, as "chan: jobs" or "chan: #12" */
static int internal_name_of(lua_State *L) {
  attr_push_name(L, check_chan(L, 1, "name_of", "name_of(ch)"), 1);
  return 1;
}

/* report(err, traceback, where): reports a caught error. */
static int internal_report(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 3);
  Go *go = sched_self(L)->current;
  if (go && go->origin && lua_type(L, 3) == LUA_TSTRING) {
    root_push(L, go);
    name_push_go(L, go, 4);
    lua_pushfstring(L, "%s (%s)", lua_tostring(L, 3), lua_tostring(L, 5));
    lua_replace(L, 3);
    lua_settop(L, 3);
  }
  error_report(L);
  return 0;
}

/* elsewhere(f): see error_set_elsewhere */
static int internal_elsewhere(lua_State *L) {
  check_callable(L, 1, "elsewhere");
  lua_settop(L, 1);
  error_set_elsewhere(L);
  return 0;
}

/* pass_on(err, to, from): the caller has taken err from the channel `from` and is about to close `to` with it. `to` is
   nil or false if there is no channel to close; `from` is nil if err is reported elsewhere (unhandled_pass_on). */
static int internal_pass_on(lua_State *L) {
  lua_settop(L, 3);
  unhandled_pass_on(L, sched_self(L), 1, 2, 3);
  return 0;
}

/* is_error_known(ch) -> whether the error with which the channel was closed needs no further report (unhandled.h) */
static int internal_is_error_known(lua_State *L) {
  const Chan *ch = check_looked(L, 1, "is_error_known", "is_error_known(ch)", LOOK_CHANNEL);
  lua_pushboolean(L, (ch->flags & CHAN_ERROR_KNOWN) != 0);
  return 1;
}

/* fail(ch, err, traceback, where) -> whether ch was open: closes ch with err, which is reported once, like a go block's
   error, unless a take gets it. For channels that the library feeds without a go block, such as those of a failed
   stream. If ch is closed, the program wants nothing more from it, and nothing happens. `where` is the name in the
   report; by default ch's name. */
static int internal_fail(lua_State *L) {
  Chan *ch = check_looked(L, 1, "fail", "fail(ch, err, traceback, where)", LOOK_CHANNEL);
  lua_settop(L, 4);
  luaL_argcheck(L, !lua_isnil(L, 2), 2, "an error expected");
  bool is_closed = chan_is_closed(ch);
  lua_pushboolean(L, !is_closed);
  lua_insert(L, 1);
  if (is_closed) {
    lua_settop(L, 1);
    return 1;
  }
  chan_close(L, ch, 2, 3);
  if (lua_isnil(L, 5)) {
    lua_pushvalue(L, 2);
    lua_replace(L, 5);
  }
  if (!(ch->flags & CHAN_ERROR_TAKEN)) unhandled_add(L, ch->sched, 2);
  lua_settop(L, 1);
  return 1;
}

/* unhandled(err, traceback, where, ch): another state has closed the shared channel ch with this error: it is reported,
   unless a take from ch gets it. */
static int internal_unhandled(lua_State *L) {
  check_chan(L, 4, "unhandled", "unhandled(err, traceback, where, ch)");
  lua_settop(L, 4);
  lua_insert(L, 1);
  unhandled_add(L, sched_self(L), 1);
  return 0;
}

/* report_unhandled(is_end): reports all unhandled errors; at the end of the program also those of the outer world. */
static int internal_report_unhandled(lua_State *L) {
  if (lua_toboolean(L, 1)) unhandled_report_all(L, sched_self(L));
  else unhandled_report(L, sched_self(L), INT64_MAX);
  return 0;
}

/* grace(ms) -> ms before: sets how long errors wait for a take. */
static int internal_grace(lua_State *L) {
  Sched *S = sched_self(L);
  check_push_ms(L, S->grace);
  S->grace = check_ms(L, 1, "grace");
  return 1;
}

/* is_well() -> whether the program may exit with status 0: no error was written to stderr, or errors_pass is set */
static int internal_is_well(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_pushboolean(L, S->printed == 0 || S->errors_pass);
  return 1;
}

/* error_text(err) -> how an error is written */
static int internal_error_text(lua_State *L) {
  lua_settop(L, 1);
  error_push_text(L, 1);
  return 1;
}

/* ---- the rest ---- */

/* library(name): declares that all files below a folder belong to the library, in which the caller's source is
   `name`. */
static int internal_library(lua_State *L) {
  origin_set_library(L, luaL_checkstring(L, 1));
  return 0;
}

/* current_driver() -> the scheduler's driver, or nil */
static int internal_current_driver(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_DRIVER);
  return 1;
}

/* is_simulation() -> whether the clock is virtual */
static int internal_is_simulation(lua_State *L) {
  lua_pushboolean(L, sched_self(L)->world.clock.is_virtual);
  return 1;
}

/* require(name) -> the module, loaded by the main thread: a library such as luv calls back on the coroutine that has
   loaded it; a go block's coroutine may be parked then, or dead. */
static int internal_require(lua_State *L) {
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getglobal(L, "require");
  lua_insert(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main_thread = lua_tothread(L, -1);
  lua_pop(L, 1);
  if (main_thread == L) {
    lua_call(L, 1, 1);
    return 1;
  }
  if (!lua_checkstack(main_thread, LUA_MINSTACK)) return luaL_error(L, "require: stack overflow of the main thread");
  lua_xmove(L, main_thread, 2);
  int status = lua_pcall(main_thread, 1, 1, 0);
  lua_xmove(main_thread, L, 1);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* seed([n]) -> a random integer of the scheduler, to seed another one; with n: seeds this one. */
static int internal_seed(lua_State *L) {
  Sched *S = sched_self(L);
  if (!lua_isnoneornil(L, 1)) {
    random_seed(&S->world.random, (uint64_t)luaL_checkinteger(L, 1));
    return 0;
  }
  lua_pushinteger(L, (lua_Integer)random_below(&S->world.random, UINT32_MAX));
  return 1;
}

/* absolute(path) -> the path from the root, so that it stays right when the program changes its directory */
static int internal_absolute(lua_State *L) {
  char folder[PATH_MAX];
  const char *path = luaL_checkstring(L, 1);
  if (path[0] == '/' || !getcwd(folder, sizeof folder)) lua_settop(L, 1);
  else lua_pushfstring(L, "%s/%s", folder, path);
  return 1;
}

/* json(null, Array) -> encode, decode: the functions of json/json.h, for the module that has these two tables */
static int internal_json(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, json_encode, 2);
  lua_insert(L, 1);
  lua_pushcclosure(L, json_decode, 2);
  return 2;
}

/* Adds `without`: a table with what the program has forbidden the state (runnel_open_limited), or nil. */
static void add_without(lua_State *L) {
  unsigned without = limits_get(L).without;
  if (!without) return;
  lua_newtable(L);
  lua_pushboolean(L, (without & LIMITS_THREADS) != 0);
  lua_setfield(L, -2, "threads");
  lua_pushboolean(L, (without & LIMITS_EXIT) != 0);
  lua_setfield(L, -2, "exit");
  lua_pushboolean(L, (without & LIMITS_SYSTEM) != 0);
  lua_setfield(L, -2, "system");
  lua_setfield(L, -2, "without");
}

/* stay_loaded(f): keeps the library of a C function loaded until the process ends. */
static int internal_stay_loaded(lua_State *L) {
  lua_CFunction f = lua_tocfunction(L, 1);
  lua_pushboolean(L, f && stay_loaded_at((const void *)(uintptr_t)f));
  return 1;
}

void lua_internal_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"absolute", internal_absolute},
      {"alts_index", module_alts_index},
      {"current_driver", internal_current_driver},
      {"elsewhere", internal_elsewhere},
      {"stay_loaded", internal_stay_loaded},
      {"error_text", internal_error_text},
      {"fail", internal_fail},
      {"grace", internal_grace},
      {"is_error_known", internal_is_error_known},
      {"is_simulation", internal_is_simulation},
      {"is_well", internal_is_well},
      {"csv_scan", csv_scan},
      {"json", internal_json},
      {"library", internal_library},
      {"name_of", internal_name_of},
      {"on_close", internal_on_close},
      {"pass_on", internal_pass_on},
      {"raise", internal_raise},
      {"report", internal_report},
      {"report_unhandled", internal_report_unhandled},
      {"reports", internal_reports},
      {"require", internal_require},
      {"seed", internal_seed},
      {"simulate", module_simulate},
      {"unhandled", internal_unhandled},
      {"waits", internal_waits},
      {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_internal_go_open(L);
  lua_internal_lines_open(L);
  lua_moving_open(L);
  lua_gathering_open(L);
  lua_job_open(L);
  lua_worker_open(L);
  lua_packing_open(L);
  lua_pool_open(L);
  lua_watch_open(L);
  lua_trace_open(L);
  lua_profile_open(L);
  lua_sigterm_open(L);
  lua_ending_open(L);
  lua_resolver_open(L);
  lua_spawn_open(L);
  lua_polled_open(L);
  lua_file_read_open(L);
  lua_explore_open(L);
  lua_hosts_open(L);
  add_without(L);
  lua_setfield(L, -2, "internal");
}
