/* internal_go.c: the functions of core.internal about go blocks: starting the library's own, and inspecting or
   influencing others. */
#include "blocks/go.h"
#include "blocks/park.h"
#include "channels/alt.h"
#include "errors/error.h"
#include "errors/leaks.h"
#include "errors/origin.h"
#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "lua/ps.h"
#include "lua/turn.h"

/* ---- starting one ---- */

/* go_feeding(give_up, fed, f, ...) -> result channel. If the go block dies, give_up(fed, reason, its result channel,
   is_reported) is called, which must not wait. */
static int internal_go_feeding(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  check_callable(L, 3, "go");
  go_spawn_feeding(L, sched_self(L), lua_gettop(L) - 3);
  return 1;
}

/* close_fed(fed, reason): closes a channel, or the channels of a list (go_close_fed). */
static int internal_close_fed(lua_State *L) {
  lua_settop(L, 2);
  go_close_fed(L, 1, 2);
  return 0;
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
  if (go && number) go->origin = number & ORIGIN_MAX;
  else if (lua_type(L, 2) == LUA_TSTRING) origin_set(L, 1, lua_tostring(L, 2));
  lua_settop(L, 1);
  return 1;
}

/* origin(what) -> number, text: stands for `what`, the library function that the program has called, and the line of
   that call; 0 if the program has not called it. The text is "WHAT at FILE:LINE"; with 0 the running go block's text,
   if it has one. */
static int internal_origin(lua_State *L) {
  const Sched *S = sched_self(L);
  const char *what = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  uint32_t number = origin_of_caller(L, what);
  lua_pushinteger(L, number);
  return origin_push(L, number || !S->current ? number : S->current->origin) ? 2 : 1;
}

/* ---- what the running one does ---- */

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

/* join(ch): waits until ch closes; also in a go block that was cancelled and has got the error. */
static int internal_join(lua_State *L) {
  Chan *ch = check_looked(L, 1, "join", "join(ch)", LOOK_BLOCK);
  if (ch->flags & CHAN_CLOSED) return 0;
  static const Operation join = {.name = "a scope", .waiter = WAITER_UNCOUNTED, .cleans_up = true};
  return park_on(L, ch, 1, &join, NULL);
}

/* What guard:returned has returned is above the guard on the stack. */
static int guarded_ends(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  return lua_gettop(L) - 1;
}

/* The function's results are above the guard on the stack. */
static int guarded_returned(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  lua_getfield(L, 1, "returned");
  lua_insert(L, 2);
  lua_pushvalue(L, 1);
  lua_insert(L, 3);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, guarded_ends);
  return guarded_ends(L, LUA_OK, 0);
}

/* guarded(guard, f, ...) -> the results of guard:returned(f(...)); both may wait. The guard is closed in any case, also
   if other code closes the coroutine. This is the body of a go block in which the library calls the program's function,
   and which counts as one of the program: no Lua function of the library is below f on its stack. */
static int internal_guarded(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, guarded_returned);
  return guarded_returned(L, LUA_OK, 0);
}

/* is_interrupt(err) -> whether err is Ctrl-C's */
static int internal_is_interrupt(lua_State *L) {
  lua_settop(L, 1);
  lua_pushboolean(L, error_is_interrupt(L, 1));
  return 1;
}

/* is_cancelled(err) -> whether err is the running go block's cancellation */
static int internal_is_cancelled(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_settop(L, 1);
  if (!S->current) return 0;
  root_push(L, S->current);
  lua_pushboolean(L, go_is_cancellation(L, 2, 1));
  return 1;
}

/* is_deadlock(err) -> whether err is the last deadlock of which the simulation has told the running go block, its
   function. That comes as a cancel, but comes again if nothing changes before the function waits again. */
static int internal_is_deadlock(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_settop(L, 1);
  if (!S->current) return 0;
  root_push(L, S->current);
  attr_push(L, 2, ATTR_DEADLOCK);
  lua_pushboolean(L, !lua_isnil(L, 1) && lua_rawequal(L, 1, 3));
  return 1;
}

/* ---- what one does to another ---- */

/* wake(block): ends the sleep of the go block, or of the caller outside any go block if it is nil. Does nothing if it
   does not sleep. It gets a result, so that a cancel that comes now does not make the sleep raise. */
static int internal_wake(lua_State *L) {
  Sched *S = sched_self(L);
  Alt *alt = &S->outside;
  if (!lua_isnoneornil(L, 1)) {
    Go *go = chan_to_go(check_looked(L, 1, "wake", "wake(block)", LOOK_BLOCK));
    luaL_argcheck(L, go, 1, "the result channel of a go block expected");
    alt = &go->alt;
  }
  if (alt->state != ALT_SLEEPING || !alt_is_active(alt)) return 0;
  alt_stop_waiting(S, alt);
  lua_pushboolean(alt->co, 1);
  alt_wake(S, alt, 1);
  return 0;
}

static const Operation REST = {.name = "rest"};

/* rest(): between two parts of a long answer: lets the others have a turn, if that is possible here (turn_between). */
static int internal_rest(lua_State *L) {
  Sched *S = sched_self(L);
  return turn_between(L, S) ? park_yield(L, S, &REST, NULL) : 0;
}

/* withdraw_take(result, ch) -> whether the go block waited: if the go block of that result channel waits in a take on
   ch, and on nothing else, the take ends without a value and returns nil, although ch is open. Otherwise nothing
   happens. rn.cancel, unlike this, takes effect at the next wait if the go block does not wait now. */
static int internal_withdraw_take(lua_State *L) {
  Chan *result = check_looked(L, 1, "withdraw_take", "withdraw_take(result, ch)", LOOK_BLOCK);
  const Chan *ch = check_looked(L, 2, "withdraw_take", "withdraw_take(result, ch)", LOOK_BLOCK);
  Go *go = chan_to_go(result);
  luaL_argcheck(L, go, 1, "the result channel of a go block expected");
  lua_pushboolean(L, go_withdraw_take(L, result->sched, go, ch));
  return 1;
}

/* is_cancellation(result, err) -> whether err is the go block's cancellation */
static int internal_is_cancellation(lua_State *L) {
  check_looked(L, 1, "is_cancellation", "is_cancellation(result, err)", LOOK_BLOCK);
  lua_settop(L, 2);
  lua_pushboolean(L, go_is_cancellation(L, 1, 2));
  return 1;
}

/* excuse(result, err): makes err count as the go block's cancellation, so that it is not reported when the go block
   ends. The caller reports err, or passes it on. */
static int internal_excuse(lua_State *L) {
  check_looked(L, 1, "excuse", "excuse(result, err)", LOOK_BLOCK);
  lua_settop(L, 2);
  go_excuse(L, 1, 2);
  return 0;
}

/* ---- what is known of one ---- */

/* has_ended(result) -> whether the go block has ended */
static int internal_has_ended(lua_State *L) {
  Chan *ch = check_looked(L, 1, "has_ended", "has_ended(result)", LOOK_BLOCK);
  const Go *go = chan_to_go(ch);
  lua_pushboolean(L, !go || go->slot == 0);
  return 1;
}

/* state(block) -> the entry of ps for the go block of that result channel, or nil if it has ended */
static int internal_state(lua_State *L) {
  Go *go = chan_to_go(check_looked(L, 1, "state", "state(block)", LOOK_BLOCK));
  lua_settop(L, 1);
  if (!go || !go->slot) return 0;
  ps_push_entry(L, go, 1);
  return 1;
}

/* arrived(result) -> the results of the completed operation of that result channel's go block, if it has not run since;
   or nothing */
static int internal_arrived(lua_State *L) {
  const Go *go = chan_to_go(check_looked(L, 1, "arrived", "arrived(result)", LOOK_BLOCK));
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
  const Go *go = chan_to_go(check_looked(L, 1, "coroutine_of", "coroutine_of(result)", LOOK_BLOCK));
  if (!go || !go->alt.co || !lua_checkstack(go->alt.co, 1)) return 0;
  lua_pushthread(go->alt.co);
  lua_xmove(go->alt.co, L, 1);
  return 1;
}

/* leaks() -> a list of the sites where go blocks were collected while they waited: see leaks_push */
static int internal_leaks(lua_State *L) {
  leaks_push(L, sched_self(L));
  return 1;
}

void lua_internal_go_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"arrived", internal_arrived},
      {"close_fed", internal_close_fed},
      {"coroutine_of", internal_coroutine_of},
      {"excuse", internal_excuse},
      {"go_feeding", internal_go_feeding},
      {"guarded", internal_guarded},
      {"has_ended", internal_has_ended},
      {"is_cancellation", internal_is_cancellation},
      {"is_cancelled", internal_is_cancelled},
      {"is_deadlock", internal_is_deadlock},
      {"is_interrupt", internal_is_interrupt},
      {"join", internal_join},
      {"leaks", internal_leaks},
      {"origin", internal_origin},
      {"self", internal_self},
      {"sleep_at_end", module_sleep_at_end},
      {"started", internal_started},
      {"state", internal_state},
      {"wake", internal_wake},
      {"rest", internal_rest},
      {"withdraw_take", internal_withdraw_take},
      {NULL, NULL},
  };
  module_register(L, functions);
}
