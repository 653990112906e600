/* lua/internal.c: core.internal, a table of functions that only the library's own Lua modules call. Programs must not
   use them; they may change at any time. The functions that move values are in lua/moving.c. */
#include <string.h>

#include "blocks/go.h"
#include "blocks/park.h"
#include "channels/alt.h"
#include "core/attr.h"
#include "errors/error.h"
#include "errors/name.h"
#include "errors/origin.h"
#include "errors/unhandled.h"
#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/ps.h"
#include "sharing/shared_handle.h"
#include "sharing/shared_inbox.h"

/* ---- channels ---- */

/* on_close(ch, f) -> before: calls f(), which must not park, at once when ch closes, or now if it is closed already. A
   channel has one such function; `before`, or nil, is the one that f replaces. An error in f goes to on_error. If
   memory runs out, f may not be called. */
static int internal_on_close(lua_State *L) {
  Chan *ch = check_chan(L, 1, "on_close", "on_close(ch, f)");
  check_callable(L, 2, "on_close");
  lua_settop(L, 2);
  attr_push(L, 1, ATTR_ON_CLOSE);
  lua_insert(L, 2);
  attr_set(L, 1, ATTR_ON_CLOSE);
  if (chan_is_shared(ch)) shared_inbox_watch(L, ch, NULL);
  else if (ch->flags & CHAN_CLOSED) chan_notify_closed(L, 1);
  return 1;
}

/* offer_lines(ch, text, from, max) -> next, state: puts the lines of the text on a channel, each without its "\n" or
   "\r\n", from position `from` on, until a put would have to wait or a line has more than `max` bytes. A line without a
   newline is not put. `next` is the position after the last line that was put. `state` is true if there is no further
   newline, nil if the next put would have to wait or its line is too long, false if the channel is closed. In Lua this
   would take three calls for each line. */
static int internal_offer_lines(lua_State *L) {
  Chan *ch = check_chan(L, 1, "offer_lines", "offer_lines(ch, text, from, max)");
  size_t length;
  const char *text = luaL_checklstring(L, 2, &length);
  lua_Integer from = luaL_checkinteger(L, 3);
  luaL_argcheck(L, from >= 1 && (lua_Unsigned)from <= length + 1, 3, "not a position in the text");
  lua_Integer max = luaL_checkinteger(L, 4);
  lua_settop(L, 3);
  size_t at = (size_t)from - 1;
  PutResult result = PUT_DONE;
  const char *newline;
  while ((newline = memchr(text + at, '\n', length - at)) != NULL) {
    size_t size = (size_t)(newline - (text + at));
    if (size > 0 && newline[-1] == '\r') size--;
    if ((lua_Integer)size > max) {
      result = PUT_WAIT;
      break;
    }
    lua_pushlstring(L, text + at, size);
    result = chan_put(L, ch, 1, 4);
    lua_settop(L, 3);
    if (result != PUT_DONE) break;
    at = (size_t)(newline - text) + 1;
  }
  lua_pushinteger(L, (lua_Integer)at + 1);
  if (result == PUT_WAIT) lua_pushnil(L);
  else lua_pushboolean(L, result == PUT_DONE);
  return 2;
}

/* ---- go blocks ---- */

/* The function has returned what lies above the guard. */
static int guarded_returned(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  lua_getfield(L, 1, "returned");
  lua_insert(L, 2);
  lua_pushvalue(L, 1);
  lua_insert(L, 3);
  lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

/* guarded(guard, f, ...) -> the results of guard:returned(f(...)). The guard is closed in any case, also if somebody
   else closes the coroutine. This is the body of a scope's go block. */
static int internal_guarded(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, guarded_returned);
  return guarded_returned(L, LUA_OK, 0);
}

/* self(what) -> the result channel of the running go block, or nil outside any; raises where `what` could not wait. */
static int internal_self(lua_State *L) {
  Sched *S = sched_self(L);
  Alt *alt = park_begin(L, S, &(Operation){.name = luaL_checkstring(L, 1)});
  if (alt == &S->outside) {
    lua_settop(alt->co, 0);
    lua_pushnil(L);
    return 1;
  }
  root_push(L, sched_go(alt));
  return 1;
}

/* join(ch): waits until ch closes. */
static int internal_join(lua_State *L) {
  Chan *ch = check_chan(L, 1, "join", "join(ch)");
  if (ch->flags & CHAN_CLOSED) return 0;
  static const Operation join = {.name = "a scope", .waiter = WAITER_UNCOUNTED};
  return park_on(L, ch, 1, &join, NULL);
}

/* wake(block): ends the sleep of the go block, or of the caller outside any go block if it is nil. Does nothing if it
   does not sleep. It gets a result, so that a cancel that comes now does not make the sleep raise. */
static int internal_wake(lua_State *L) {
  Sched *S = sched_self(L);
  Alt *alt = &S->outside;
  if (!lua_isnoneornil(L, 1)) {
    Go *go = chan_to_go(check_chan(L, 1, "wake", "wake(block)"));
    luaL_argcheck(L, go, 1, "the result channel of a go block expected");
    alt = &go->alt;
  }
  if (alt->state != ALT_SLEEPING || !alt_is_active(alt)) return 0;
  alt_stop_waiting(S, alt);
  lua_pushboolean(alt->co, 1);
  alt_wake(S, alt, 1);
  return 0;
}

/* has_ended(result) -> whether the go block has ended */
static int internal_has_ended(lua_State *L) {
  Chan *ch = check_chan(L, 1, "has_ended", "has_ended(result)");
  const Go *go = chan_to_go(ch);
  lua_pushboolean(L, !go || go->slot == 0);
  return 1;
}

/* withdraw_take(result, ch) -> whether the go block waited: if the go block of that result channel waits in a take on
   ch, and on nothing else, the take ends without a value and returns nil, although ch is open. Otherwise nothing
   happens. rn.cancel, unlike this, takes effect at the next wait if the go block does not wait now. */
static int internal_withdraw_take(lua_State *L) {
  Chan *result = check_chan(L, 1, "withdraw_take", "withdraw_take(result, ch)");
  const Chan *ch = check_chan(L, 2, "withdraw_take", "withdraw_take(result, ch)");
  Go *go = chan_to_go(result);
  luaL_argcheck(L, go, 1, "the result channel of a go block expected");
  lua_pushboolean(L, go_withdraw_take(L, result->sched, go, ch));
  return 1;
}

/* arrived(result) -> the results of the operation in which the go block of that result channel has waited, if they have
   come and it has not run since; or nothing */
static int internal_arrived(lua_State *L) {
  const Go *go = chan_to_go(check_chan(L, 1, "arrived", "arrived(result)"));
  if (!go || !go->slot || go->alt.state != ALT_READY || go->alt.flags & ALT_BARE) return 0;
  lua_State *co = go->alt.co;
  int n = go->alt.nresults;
  luaL_checkstack(L, n, NULL);
  if (!lua_checkstack(co, n)) return 0;
  for (int i = 0; i < n; i++) lua_pushvalue(co, -n);
  lua_xmove(co, L, n);
  return n;
}

/* coroutine_of(result) -> the coroutine of a go block that has not ended, or nil */
static int internal_coroutine_of(lua_State *L) {
  const Go *go = chan_to_go(check_chan(L, 1, "coroutine_of", "coroutine_of(result)"));
  if (!go || !go->alt.co || !lua_checkstack(go->alt.co, 1)) return 0;
  lua_pushthread(go->alt.co);
  lua_xmove(go->alt.co, L, 1);
  return 1;
}

/* is_cancellation(result, err) -> whether err is what the go block was cancelled with */
static int internal_is_cancellation(lua_State *L) {
  check_chan(L, 1, "is_cancellation", "is_cancellation(result, err)");
  lua_settop(L, 2);
  lua_pushboolean(L, go_is_cancellation(L, 1, 2));
  return 1;
}

/* excuse(result, err): makes err count as what the go block was cancelled with, so that it is not reported when the go
   block ends. The caller reports err, or passes it on. */
static int internal_excuse(lua_State *L) {
  check_chan(L, 1, "excuse", "excuse(result, err)");
  lua_settop(L, 2);
  go_excuse(L, 1, 2);
  return 0;
}

/* origin(what) -> number: stands for `what`, the function of the library that the program has called, and the line of
   that call; 0 if the program has not called it. */
static int internal_origin(lua_State *L) {
  const char *what = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_pushinteger(L, origin_of_caller(L, what));
  return 1;
}

/* state(block) -> what ps lists for the go block of that result channel, or nil if it has ended */
static int internal_state(lua_State *L) {
  Go *go = chan_to_go(check_chan(L, 1, "state", "state(block)"));
  lua_settop(L, 1);
  if (!go || !go->slot) return 0;
  ps_push_entry(L, go, 1);
  return 1;
}

/* started(block, what) -> block: names a go block that the library has started after `what`, the function that the
   program has called, and the line of that call (origin_set). Or `what` is a number of origin(); or a go block that has
   ended, whose name the other one gets. */
static int internal_started(lua_State *L) {
  Go *go = chan_to_go(check_chan(L, 1, "started", "started(block, what)"));
  Chan *before = chan_to(L, 2);
  lua_settop(L, 2);
  uint32_t number = lua_isinteger(L, 2) ? (uint32_t)lua_tointeger(L, 2) : 0;
  if (before && chan_to_go(before)) number = chan_to_go(before)->origin;
  if (go && number) go->origin = number;
  else if (lua_type(L, 2) == LUA_TSTRING) origin_set(L, 1, lua_tostring(L, 2));
  lua_settop(L, 1);
  return 1;
}

/* library(): says that the caller's source, NAME.lua, and all files below NAME/ belong to the library. */
static int internal_library(lua_State *L) {
  origin_set_library(L);
  return 0;
}

/* ---- errors ---- */

/* raise(message): raises an error at the line of the program that has led here. */
static int internal_raise(lua_State *L) {
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  return error_raise(L);
}

/* reports { deadlock = f, leak = g }: from now on these write the errors, or return nil. f(waiting, what, is_stuck)
   gets what waits outside any go block (inspect_push_waiting). */
static int internal_reports(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_REPORTS);
  return 0;
}

/* waits() -> list of the go blocks, as in ps, with what such errors need */
static int internal_waits(lua_State *L) {
  ps_push_list(L, true);
  return 1;
}

/* name_of(ch) -> its name, as "chan: jobs" or "chan: #12" */
static int internal_name_of(lua_State *L) {
  attr_push_name(L, check_chan(L, 1, "name_of", "name_of(ch)"), 1);
  return 1;
}

/* report(err, traceback, where): reports an error that Lua code of the library has caught. */
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

/* pass_on(err, to, from): the caller has taken err from the channel `from` and is about to close `to` with it. `to` is
   nil or false if there is no channel to close; `from` is nil if err is reported elsewhere (unhandled_pass_on). */
static int internal_pass_on(lua_State *L) {
  lua_settop(L, 3);
  unhandled_pass_on(L, sched_self(L), 1, 2, 3);
  return 0;
}

/* fail(ch, err, traceback, where) -> whether ch was open: closes ch with err, which somebody must take from it: as the
   error of a go block it is reported otherwise, once. For what the library feeds without a go block, such as a stream
   that has failed. If ch is closed, the program wants nothing more from it, and nothing happens. `where` is the name in
   the report; by default that of ch. */
static int internal_fail(lua_State *L) {
  Chan *ch = check_chan(L, 1, "fail", "fail(ch, err, traceback, where)");
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

/* unhandled(err, traceback, where, ch): the error with which another state has closed the shared channel ch: it is
   reported, unless somebody takes it from there. */
static int internal_unhandled(lua_State *L) {
  check_chan(L, 4, "unhandled", "unhandled(err, traceback, where, ch)");
  lua_settop(L, 4);
  lua_insert(L, 1);
  unhandled_add(L, sched_self(L), 1);
  return 0;
}

/* report_unhandled(is_end): reports all unhandled errors; where the program ends, also those of the outer world. */
static int internal_report_unhandled(lua_State *L) {
  if (lua_toboolean(L, 1)) unhandled_report_all(L, sched_self(L));
  else unhandled_report(L, sched_self(L), INT64_MAX);
  return 0;
}

/* grace(ms) -> ms before: how long errors wait to be taken from now on. */
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
   loaded it, and that of a go block may be parked then, or dead. */
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

void lua_internal_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"alts_index", module_alts_index},
      {"arrived", internal_arrived},
      {"coroutine_of", internal_coroutine_of},
      {"current_driver", internal_current_driver},
      {"error_text", internal_error_text},
      {"excuse", internal_excuse},
      {"fail", internal_fail},
      {"grace", internal_grace},
      {"guarded", internal_guarded},
      {"has_ended", internal_has_ended},
      {"is_cancellation", internal_is_cancellation},
      {"is_simulation", internal_is_simulation},
      {"is_well", internal_is_well},
      {"join", internal_join},
      {"library", internal_library},
      {"name_of", internal_name_of},
      {"origin", internal_origin},
      {"offer_lines", internal_offer_lines},
      {"on_close", internal_on_close},
      {"pass_on", internal_pass_on},
      {"raise", internal_raise},
      {"report", internal_report},
      {"report_unhandled", internal_report_unhandled},
      {"reports", internal_reports},
      {"require", internal_require},
      {"self", internal_self},
      {"simulate", module_simulate},
      {"started", internal_started},
      {"state", internal_state},
      {"unhandled", internal_unhandled},
      {"waits", internal_waits},
      {"wake", internal_wake},
      {"withdraw_take", internal_withdraw_take},
      {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_moving_open(L);
  lua_job_open(L);
  lua_worker_open(L);
  lua_packing_open(L);
  lua_thread_open(L);
  lua_pool_open(L);
  lua_watch_open(L);
  lua_trace_open(L);
  lua_term_open(L);
  lua_explore_open(L);
  lua_setfield(L, -2, "internal");
}
