/* report.c: see report.h. */
#include "core/report.h"

#include <lauxlib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/attr.h"
#include "core/error_text.h"
#include "core/origin.h"
#include "core/root.h"
#include "lua/face.h"

enum { LISTED_IN_DEADLOCK = 16, NAMED = 4 };

/* ---- errors ---- */

int report_keep_traceback(lua_State *L) {
  luaL_traceback(L, L, NULL, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
  lua_settop(L, 1);
  return 1;
}

void report_push_traceback(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
  lua_pushnil(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_TRACEBACK);
}

/* Protected: (error, traceback or nil, name or channel or nil). */
static int tell(lua_State *L) {
  if (lua_type(L, 3) == LUA_TUSERDATA) {
    attr_push_name(L, (Chan *)lua_touserdata(L, 3), 3);
    lua_replace(L, 3);
  } else if (lua_isnil(L, 3)) {
    lua_pushliteral(L, "the scheduler");
    lua_replace(L, 3);
  }
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_ON_ERROR) != LUA_TNIL) {
    lua_insert(L, 1);
    lua_call(L, 3, 0);
    return 0;
  }
  sched_self(L)->printed++;
  error_text_push(L, 1);
  const char *where = luaL_tolstring(L, 3, NULL), *message = lua_tostring(L, -2);
  fprintf(stderr, "runnel: error in %s: %s\n", where, message);
  if (lua_isstring(L, 2)) fprintf(stderr, "%s\n", lua_tostring(L, 2));
  return 0;
}

void report_error(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_TELL);
  lua_insert(L, -4);
  Sched *S = sched_self(L);
  const char *outer = S->inside;
  S->inside = "an error handler";
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "runnel: error in the error handler: %s\n", message ? message : "not a string");
    lua_pop(L, 1);
  }
  S->inside = outer;
}

void report_call(lua_State *L, int nargs, const char *inside, int at) {
  int base = lua_gettop(L) - nargs;
  lua_getiuservalue(L, SCHED_SELF, SCHED_MSGH);
  lua_insert(L, base);
  Sched *S = sched_self(L);
  const char *outer = S->inside;
  S->inside = inside;
  int status = lua_pcall(L, nargs, 0, base);
  S->inside = outer;
  if (UNLIKELY(status != LUA_OK)) {
    report_push_traceback(L);
    lua_pushvalue(L, at);
    report_error(L);
  }
  lua_settop(L, base - 1);
}

/* Protected: (go block's userdata, whether it was cancelled) -> traceback or nil, name. */
static int describe_death(lua_State *L) {
  Go *go = (Go *)lua_touserdata(L, 1);
  bool is_cancelled = lua_toboolean(L, 2);
  if (is_cancelled) lua_pushnil(L);
  else luaL_traceback(L, go->alt.co, NULL, 0);
  report_go_name(L, go, 1);
  /* It keeps its name while its variables are being closed. */
  lua_pushvalue(L, -1);
  attr_set(L, 1, ATTR_GO);
  return 2;
}

void report_death(lua_State *L, int at, bool is_cancelled) {
  /* A finalizer could close the coroutine, by coroutine.close, while Lua describes its calls, and free them. */
  bool collects = !is_cancelled && lua_gc(L, LUA_GCISRUNNING) == 1;
  if (collects) lua_gc(L, LUA_GCSTOP);
  lua_getiuservalue(L, SCHED_SELF, SCHED_DESCRIBE);
  lua_pushvalue(L, at);
  lua_pushboolean(L, is_cancelled);
  if (lua_pcall(L, 2, 2, 0) != LUA_OK) {
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_pushnil(L);
  }
  if (collects) lua_gc(L, LUA_GCRESTART);
}

/* ---- names and places ---- */

/* The outermost function of a coroutine, with where it was defined; false when it has not started. Each look at a level
   costs as much as it is deep, so it is found by doubling and halving: an endless recursion has a great many. A function
   written in C (pcall, or the core's own) says nothing: then it is what that has called. */
static bool outermost(lua_State *co, lua_Debug *ar) {
  int low = 0, high = 1;
  if (!lua_getstack(co, 0, ar)) return false;
  while (lua_getstack(co, high, ar)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (lua_getstack(co, middle, ar)) low = middle;
    else high = middle;
  }
  lua_getstack(co, low, ar);
  lua_getinfo(co, "S", ar);
  lua_Debug inner;
  while (ar->linedefined < 0 && low > 0 && lua_getstack(co, --low, &inner) && lua_getinfo(co, "S", &inner)) {
    if (inner.linedefined > 0) *ar = inner;
  }
  return true;
}

/* Pushes onto co the function of which a go block that has not started is made, below its `n` arguments; or, where that is
   written in C, the first argument that is a function written in Lua. */
static void push_function(lua_State *co, int n) {
  int at = lua_gettop(co) - n, i = at;
  while (i < at + n && (!lua_isfunction(co, i) || lua_iscfunction(co, i))) i++;
  lua_pushvalue(co, lua_isfunction(co, i) && !lua_iscfunction(co, i) ? i : at);
}

/* Pushes the channel into which a go block of the library moves values, and returns true, or pushes nothing. */
static bool push_target(lua_State *L, const Go *go, int at) {
  if (!(go->chan.flags & CHAN_FEEDS)) return false;
  int top = lua_gettop(L);
  if (lua_getiuservalue(L, at, GO_FED) == LUA_TTABLE) {
    lua_pushliteral(L, "to");
    if (lua_rawget(L, top + 1) == LUA_TNIL) {
      lua_pushliteral(L, "out");
      lua_rawget(L, top + 1);
    }
  }
  if (face_to_chan(L, -1)) {
    lua_copy(L, -1, top + 1);
    lua_settop(L, top + 1);
    return true;
  }
  lua_settop(L, top);
  return false;
}

/* Pushes the name of a go block of the library, as "pipe at job.lua:2 -> chan: results". */
static bool push_origin_name(lua_State *L, const Go *go, int at) {
  if (!origin_push(L, go->origin)) return false;
  if (push_target(L, go, at)) {
    attr_push_name(L, (const Chan *)lua_touserdata(L, -1), lua_gettop(L));
    lua_pushfstring(L, "%s -> %s", lua_tostring(L, -3), lua_tostring(L, -1));
    lua_replace(L, -4);
    lua_pop(L, 2);
  }
  return true;
}

void report_go_name(lua_State *L, Go *go, int at) {
  attr_push(L, at, ATTR_GO);
  if (lua_type(L, -1) == LUA_TSTRING) return;
  lua_pop(L, 1);
  lua_State *co = go->alt.co;
  lua_Debug ar;
  if (!co || !outermost(co, &ar)) {
    if (!co || lua_gettop(co) <= go->alt.nresults) { /* a finalizer has ended it while it was being listed */
      lua_pushliteral(L, "?");
      return;
    }
    push_function(co, go->alt.nresults);
    if (!lua_isfunction(co, -1)) { /* something else that can be called */
      lua_pop(co, 1);
      lua_pushliteral(L, "[C]");
      return;
    }
    lua_getinfo(co, ">S", &ar);
  }
  if (go->origin && origin_is_library(L, &ar) && push_origin_name(L, go, at)) return;
  if (ar.linedefined > 0) lua_pushfstring(L, "%s:%d", ar.short_src, ar.linedefined);
  else lua_pushstring(L, ar.short_src);
}

void report_where(lua_State *L, const Go *go) {
  lua_State *co = go->alt.co;
  lua_Debug ar;
  int innermost = -1;
  for (int level = 0; co && lua_getstack(co, level, &ar); level++) {
    lua_getinfo(co, "Sl", &ar);
    if (ar.currentline <= 0) continue;
    if (!origin_is_library(L, &ar)) {
      lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
      return;
    }
    if (innermost < 0) innermost = level;
  }
  if (innermost < 0) {
    lua_pushnil(L);
  } else if (origin_push(L, go->origin)) {
    const char *place = strstr(lua_tostring(L, -1), " at ");
    lua_pushstring(L, place + 4);
    lua_remove(L, -2);
  } else {
    lua_getstack(co, innermost, &ar);
    lua_getinfo(co, "Sl", &ar);
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  }
}

/* Pushes the channel of a waiter. */
static void push_channel(lua_State *L, const Waiter *w) {
  lua_pushvalue(w->alt->co, w->at);
  lua_xmove(w->alt->co, L, 1);
}

/* Sets what a parked alt waits for in the table on top of L: `operation` is "take", "put" or "alts"; `channel`, or `channels` of an
   alts. */
static void set_operation(lua_State *L, const Alt *alt) {
  bool is_put = alt->waiters[0].is_put;
  if (alt->flags & ALT_SELECT) {
    lua_pushliteral(L, "alts");
    lua_createtable(L, (int)alt->count, 0);
    for (uint32_t i = 0; i < alt->count; i++) {
      push_channel(L, &alt->waiters[i]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -3, "channels");
  } else {
    push_channel(L, &alt->waiters[0]); /* before anything is allocated: a finalizer may end the wait, and the go block */
    lua_setfield(L, -2, "channel");
    lua_pushstring(L, is_put ? "put" : "take");
  }
  lua_setfield(L, -2, "operation");
}

/* Replaces the list of channels on top of L by their names, as " on chan: a, chan: b and 3 more". */
static void name_channels(lua_State *L) {
  int list = lua_gettop(L);
  int n = (int)lua_rawlen(L, list);
  lua_pushliteral(L, "");
  for (int i = 1; i <= n && i <= NAMED; i++) {
    lua_pushstring(L, i == 1 ? " on " : ", ");
    lua_rawgeti(L, list, i);
    attr_push_name(L, (const Chan *)lua_touserdata(L, -1), lua_gettop(L));
    lua_remove(L, -2);
    lua_concat(L, 3);
  }
  if (n > NAMED) {
    lua_pushfstring(L, " and %d more", n - NAMED);
    lua_concat(L, 2);
  }
  lua_replace(L, list);
}

/* Protected: (alt, name of the operation) -> text. */
static int describe_waiting(lua_State *L) {
  const Alt *alt = (const Alt *)lua_touserdata(L, 1);
  const char *what = (const char *)lua_touserdata(L, 2);
  lua_pushstring(L, what);
  if (!(alt->flags & ALT_SELECT) && strcmp(what, "take") != 0 && strcmp(what, "put") != 0) return 1;
  lua_createtable(L, (int)alt->count, 0);
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt->waiters[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  name_channels(L);
  lua_concat(L, 2);
  return 1;
}

void report_push_waiting(lua_State *L, Alt *alt, const Operation *op) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, LUA_MINSTACK)) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_DESCRIBE_WAITING);
    lua_pushlightuserdata(L, alt);
    lua_pushlightuserdata(L, (void *)(uintptr_t)op->name); /* only ever read through a const pointer */
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) return;
  }
  lua_settop(L, top);
  lua_pushnil(L);
}

/* Pushes the entry of ps for the go block at index `at`. */
static void push_entry(lua_State *L, Go *go, int at) {
  static const char *const states[] = {"running", "parked", "sleeping", "ready", "dead", "new"};
  const Alt *alt = &go->alt;
  lua_createtable(L, 0, 8);
  lua_pushinteger(L, (lua_Integer)go->chan.id);
  lua_setfield(L, -2, "id");
  report_go_name(L, go, at);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, states[alt->state]);
  lua_setfield(L, -2, "state");
  if (alt->state != ALT_IDLE) {
    report_where(L, go);
    lua_setfield(L, -2, "where");
  }
  if (alt->state == ALT_PARKED && alt->count && alt_is_active(alt)) {
    set_operation(L, alt);
  }
  if (alt->state == ALT_PARKED || alt->state == ALT_SLEEPING) {
    const Sched *S = go->chan.sched;
    int64_t waited = clock_now(&S->world.clock) - alt->since;
    lua_pushnumber(L, waited > 0 && !(alt->flags & ALT_BARE) ? (lua_Number)waited / (lua_Number)CLOCK_MS : 0);
    lua_setfield(L, -2, "waited");
  }
  lua_pushvalue(L, at);
  lua_setfield(L, -2, "result");
}

void report_list(lua_State *L) {
  Sched *S = sched_self(L);
  lua_newtable(L);
  lua_Integer n = 0;
  for (uint32_t slot = 1; slot <= S->roots.size; slot++) {
    root_push_slot(L, slot);
    Go *go = (Go *)lua_touserdata(L, -1);
    if (go) {
      push_entry(L, go, lua_gettop(L));
      lua_rawseti(L, -3, ++n);
    }
    lua_pop(L, 1);
  }
}

int report_raise(lua_State *L, int level) {
  luaL_where(L, level);
  lua_insert(L, -2);
  lua_concat(L, 2);
  return lua_error(L);
}

int report_deadlock(lua_State *L, const Operation *op) {
  const char *waiting = lua_isstring(L, -1) ? lua_tostring(L, -1) : op->name;
  luaL_Buffer b;
  report_list(L);
  int list = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  luaL_buffinit(L, &b);
  lua_pushfstring(L, "deadlock: %s would wait for ever: no go block is ready, no timer is due, and the driver has nothing alive",
                  waiting);
  luaL_addvalue(&b);
  luaL_addstring(&b, n ? "\nparked go blocks:" : "; there are no go blocks");
  for (lua_Integer i = 1; i <= n && i <= LISTED_IN_DEADLOCK; i++) {
    lua_rawgeti(L, list, i);
    int entry = lua_gettop(L);
    lua_getfield(L, entry, "id");
    lua_getfield(L, entry, "name");
    lua_getfield(L, entry, "operation");
    lua_getfield(L, entry, "channel");
    lua_getfield(L, entry, "where");
    const char *place = lua_tostring(L, entry + 5);
    lua_pushfstring(L, "\n  #%I (%s): %s", (LUAI_UACINT)lua_tointeger(L, entry + 1), lua_tostring(L, entry + 2),
                    lua_isnil(L, entry + 3) ? "?" : lua_tostring(L, entry + 3));
    if (!lua_isnil(L, entry + 4)) {
      attr_push_name(L, (Chan *)lua_touserdata(L, entry + 4), entry + 4);
      lua_pushfstring(L, " on %s", lua_tostring(L, -1));
      lua_replace(L, -2);
      lua_concat(L, 2);
    }
    if (lua_getfield(L, entry, "channels") == LUA_TTABLE) {
      name_channels(L);
      lua_concat(L, 2);
    } else {
      lua_pop(L, 1);
    }
    if (place) {
      lua_pushfstring(L, " at %s", place);
      lua_concat(L, 2);
    }
    lua_replace(L, entry);
    lua_settop(L, entry);
    luaL_addvalue(&b);
  }
  if (n > LISTED_IN_DEADLOCK) {
    lua_pushfstring(L, "\n  and %I more", (LUAI_UACINT)(n - LISTED_IN_DEADLOCK));
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  return report_raise(L, op->level);
}

void report_open(lua_State *L) {
  static const struct {
    int user_value;
    lua_CFunction function;
  } functions[] = {{SCHED_MSGH, report_keep_traceback}, {SCHED_TELL, tell}, {SCHED_DESCRIBE, describe_death},
                   {SCHED_DESCRIBE_WAITING, describe_waiting}};
  for (int i = 0; i < 4; i++) {
    lua_pushvalue(L, SCHED_SELF);
    lua_pushcclosure(L, functions[i].function, 1);
    lua_setiuservalue(L, SCHED_SELF, functions[i].user_value);
  }
}
