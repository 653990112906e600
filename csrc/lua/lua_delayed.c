/* lua/lua_delayed.c: rn.after: timers that call a function, and their methods. */
#include "errors/name.h"
#include "lua/check.h"
#include "lua/module.h"
#include "sim/busy.h"
#include "sim/reduce.h"
#include "timers/delayed.h"
#include "tracing/trace_context.h"
#include "tracing/trace_record.h"

/* The metatable's name, which messages of Lua itself use. */
#define TIMER_TNAME "runnel.timer"

/* The metatable is the second upvalue of each function here. */
#define TIMER_META lua_upvalueindex(2)

enum { MAX_ARGUMENTS = 30000 }; /* of a call: a userdata of Lua 5.5 has so many user values at most */

/* The running code has used a timer: a search touches all timers, and its story tells of it. */
static void used(const Sched *S, const Delayed *delayed, int how, int64_t ns) {
  Reduce *r = reduce_running(&S->world);
  if (UNLIKELY(r != NULL)) footprint_touch(&r->run, OBJECT_TIMERS);
  if (LIKELY(!S->tracer || !S->tracer->story)) return;
  TraceActor who = trace_current(S);
  if (who.label == TRACE_HIDDEN) return;
  int64_t ms = ns / CLOCK_MS;
  story_add(S->tracer->story, STORY_TIMER, who.id, who.label, (uint32_t)(uintptr_t)delayed,
            (uint64_t)(ms < UINT32_MAX ? ms : UINT32_MAX), how);
}

/* Makes the timer at index `at` due in `ns`. Returns whether it was pending. */
static bool start(lua_State *L, Sched *S, int at, int64_t ns, int how) {
  if (ns == 0) busy_add(S, BUSY_POLL);
  bool was_pending = delayed_start(L, S, at, ns);
  used(S, (const Delayed *)lua_touserdata(L, at), how, ns);
  return was_pending;
}

/* ---- the constructor ---- */

static int return_all(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L);
}

/* (context, f, ...): calls f(...) in a go block that gets this context. */
static int call_in_context(lua_State *L) {
  lua_pushvalue(L, 1);
  trace_context_set(L, sched_self(L), 0);
  lua_remove(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, return_all);
  return return_all(L, LUA_OK, 0);
}

/* Contexts are passed on: the go block gets that of the running code, below whose function and arguments it is put. */
static void insert_context(lua_State *L, const Sched *S) {
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, call_in_context, 1);
  lua_insert(L, 2);
  trace_context_push(L, S, 0);
  lua_insert(L, 3);
}

/* Checks the function of after, which is not a function. */
static void check_function(lua_State *L) {
  if (!chan_to(L, 2) && luaL_getmetafield(L, 2, "__call") != LUA_TNIL) lua_pop(L, 1);
  else
    luaL_error(L, "after: a function expected, got %s; to call f(...) later, write rn.after(ms, f, ...)",
               check_got(L, 2));
}

/* after(ms, f, ...) -> timer */
static int core_after(lua_State *L) {
  Sched *S = sched_self(L);
  int64_t ns = check_ms(L, 1, "after");
  if (UNLIKELY(!lua_isfunction(L, 2))) check_function(L);
  if (UNLIKELY(lua_gettop(L) > MAX_ARGUMENTS)) return luaL_error(L, "after: too many arguments for a go block");
  if (UNLIKELY(S->tracer && S->tracer->holds[3])) insert_context(L, S);
  delayed_new(L, S, lua_gettop(L) - 2, TIMER_META);
  start(L, S, lua_gettop(L), ns, STORY_TIMER_STARTED);
  return 1;
}

/* ---- methods ---- */

static Delayed *check_timer(lua_State *L, const char *what, const char *usage) {
  Delayed *delayed = (Delayed *)lua_touserdata(L, 1);
  bool is = delayed && lua_getmetatable(L, 1);
  if (UNLIKELY(!is || !lua_rawequal(L, -1, TIMER_META)))
    luaL_error(L, "%s: a timer of rn.after expected, got %s; call it as %s", what, check_got(L, 1), usage);
  lua_pop(L, 1);
  return delayed;
}

/* stop() -> whether it was pending */
static int timer_stop(lua_State *L) {
  Delayed *delayed = check_timer(L, "stop", "timer:stop()");
  Sched *S = sched_self(L);
  bool was_pending = delayed_stop(L, S, delayed);
  used(S, delayed, was_pending ? STORY_TIMER_STOPPED : STORY_TIMER_OVER, 0);
  lua_pushboolean(L, was_pending);
  return 1;
}

/* restart(ms) -> whether it was pending */
static int timer_restart(lua_State *L) {
  check_timer(L, "restart", "timer:restart(ms)");
  int64_t ns = check_ms(L, 2, "restart");
  lua_pushboolean(L, start(L, sched_self(L), 1, ns, STORY_TIMER_RESTARTED));
  return 1;
}

/* The text of a timer, as "timer: 20 ms left". */
static int timer_tostring(lua_State *L) {
  int64_t left = delayed_left(sched_self(L), check_timer(L, "tostring", "tostring(timer)"));
  if (left < 0) {
    lua_pushliteral(L, "timer: not pending");
  } else {
    check_push_ms(L, left);
    lua_pushfstring(L, "timer: %s ms left", lua_tostring(L, -1));
  }
  return 1;
}

/* ---- all timers ---- */

/* Pushes the place where the function of the timer at index `at` was defined, as a go block of it is named. */
static void push_name(lua_State *L, int at) {
  const Delayed *delayed = (const Delayed *)lua_touserdata(L, at);
  lua_Debug ar = {0};
  int type;
  for (int i = DELAYED_FUNCTION; (type = lua_getiuservalue(L, at, i)) != LUA_TNONE; i++) {
    if (type == LUA_TFUNCTION && !lua_iscfunction(L, -1)) break;
    lua_pop(L, 1);
  }
  if (type == LUA_TFUNCTION) {
    lua_getinfo(L, ">S", &ar);
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
  } else {
    lua_pop(L, 1);
    lua_pushliteral(L, "[C]");
  }
  name_add_host(L, delayed->host);
}

/* timers() -> list of pending timers, the next one first */
static int core_timers(lua_State *L) {
  check_dot(L);
  lua_settop(L, 0);
  Sched *S = sched_self(L);
  delayed_push_list(L, S);
  for (lua_Integer i = 1; lua_rawgeti(L, 1, i) != LUA_TNIL; i++) {
    const Delayed *delayed = (const Delayed *)lua_touserdata(L, 2);
    int64_t left = delayed_left(S, delayed);
    push_name(L, 2);
    lua_createtable(L, 0, 3);
    lua_insert(L, 2);
    lua_setfield(L, 2, "name");
    lua_setfield(L, 2, "timer");
    check_push_ms(L, left > 0 ? left : 0); /* a finalizer may have stopped it */
    lua_setfield(L, 2, "left");
    lua_rawseti(L, 1, i);
  }
  lua_settop(L, 1);
  return 1;
}

/* Adds functions to the table below the metatable, which is on top of L. */
static void add(lua_State *L, const luaL_Reg *functions) {
  lua_pushvalue(L, -2);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushvalue(L, -3);
  luaL_setfuncs(L, functions, 2);
  lua_pop(L, 1);
}

void lua_delayed_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"after", core_after}, {"timers", core_timers}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__close", timer_stop}, {"__tostring", timer_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"stop", timer_stop}, {"restart", timer_restart}, {NULL, NULL}};
  delayed_open(L);
  lua_createtable(L, 0, 4);
  add(L, functions);
  lua_pushvalue(L, -1);
  add(L, metamethods);
  lua_pop(L, 1);
  lua_pushliteral(L, TIMER_TNAME);
  lua_setfield(L, -2, "__name");
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, -2);
  add(L, methods);
  lua_pop(L, 1);
  lua_setfield(L, -2, "__index");
  lua_getiuservalue(L, SCHED_SELF, SCHED_DELAYED);
  lua_insert(L, -2);
  lua_setfield(L, -2, DELAYED_META);
  lua_pop(L, 1);
}
