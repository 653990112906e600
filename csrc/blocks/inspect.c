/* inspect.c: see inspect.h. */
#include "blocks/inspect.h"

#include <lauxlib.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/attr.h"
#include "errors/error.h"
#include "errors/name.h"
#include "lifetimes/root.h"
#include "shared/status.h"
#include "sharing/family.h"
#include "sharing/shared_handle.h"

/* Go blocks that a deadlock report lists, and channels that it names for one of them. */
enum { LISTED_IN_DEADLOCK = 16, NAMED = 4 };

/* Pushes the channel of a waiter. */
static void push_channel(lua_State *L, const Waiter *w) {
  lua_pushvalue(w->alt->co, w->at);
  lua_xmove(w->alt->co, L, 1);
}

/* Pushes a list of the channels of an alt's waiters. */
static void push_channels(lua_State *L, const Alt *alt) {
  lua_createtable(L, (int)alt->count, 0);
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt_waiters(alt)[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* Sets fields of the table on top of L that tell what a parked alt waits for: `operation`, which is "take", "put" or
   "alts", and `channel`, or `channels` of an alts. */
static void set_operation(lua_State *L, const Alt *alt) {
  bool is_put = alt_waiters(alt)->is_put;
  if (alt->flags & ALT_SELECT) {
    lua_pushliteral(L, "alts");
    push_channels(L, alt);
    lua_setfield(L, -3, "channels");
  } else {
    push_channel(L, alt_waiters(alt)); /* first, since an allocation may run a finalizer that ends the go block */
    lua_setfield(L, -2, "channel");
    lua_pushstring(L, is_put ? "put" : "take");
  }
  lua_setfield(L, -2, "operation");
}

/* Sets the field `loops` of the table on top of L, if it is a for loop that waits. */
static void set_loops(lua_State *L, const Alt *alt) {
  if (!(alt->flags & ALT_LOOP)) return;
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "loops");
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

/* The owner of the thread for which a go block, whose result channel is at index `at`, stands; or NULL. */
static const Owner *owner_of(lua_State *L, int at) {
  attr_push(L, at, ATTR_THREAD);
  const StatusHold *held = (const StatusHold *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return held ? status_owner(held->status) : NULL;
}

/* Replaces the result channel on top of L, of a go block that stands for a thread, by a text that tells what the thread
   waits for, as ": take on chan: a, put on chan: b". `waits`: the list that set_thread has made. */
static void describe_waits(lua_State *L, int waits) {
  int at = lua_gettop(L);
  const Owner *owner = owner_of(L, at);
  MemberWait hidden[NAMED];
  lua_Integer known = (lua_Integer)lua_rawlen(L, waits);
  lua_Integer n = known + (owner ? (lua_Integer)family_waits(sched_self(L)->sharing, owner, hidden, NAMED) : 0);
  lua_pushliteral(L, "");
  for (lua_Integer i = 1; i <= n && i <= NAMED; i++) {
    lua_pushstring(L, i == 1 ? ": " : ", ");
    if (i <= known) {
      lua_rawgeti(L, waits, i);
      lua_getfield(L, -1, "operation");
      lua_getfield(L, -2, "channel");
      attr_push_name(L, (const Chan *)lua_touserdata(L, -1), lua_gettop(L));
      lua_pushfstring(L, "%s on %s", lua_tostring(L, -3), lua_tostring(L, -1));
      lua_insert(L, -5);
      lua_pop(L, 4);
    } else {
      const MemberWait *wait = &hidden[i - known - 1];
      lua_pushfstring(L, "%s on %s%s", wait->is_put ? "put" : "take", wait->name[0] ? "chan: " : "an unnamed channel",
                      wait->name);
    }
    lua_concat(L, 3);
  }
  if (n > NAMED) {
    lua_pushfstring(L, " and %I more", (LUAI_UACINT)(n - NAMED));
    lua_concat(L, 2);
  }
  lua_replace(L, at);
}

/* Protected: (alt, name of the operation) -> a table as ps has for a go block, text */
static int describe_waiting(lua_State *L) {
  const Alt *alt = (const Alt *)lua_touserdata(L, 1);
  const char *what = (const char *)lua_touserdata(L, 2);
  bool is_named = alt->flags & ALT_SELECT || strcmp(what, "take") == 0 || strcmp(what, "put") == 0;
  lua_createtable(L, 0, 3);
  if (is_named) set_operation(L, alt);
  set_loops(L, alt);
  lua_pushstring(L, what);
  if (!is_named) return 2;
  push_channels(L, alt);
  name_channels(L);
  lua_concat(L, 2);
  return 2;
}

void inspect_push_waiting(lua_State *L, Alt *alt, const char *what) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, LUA_MINSTACK)) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_DESCRIBE_WAITING);
    lua_pushlightuserdata(L, alt);
    lua_pushlightuserdata(L, (void *)(uintptr_t)what); /* only ever read through a const pointer */
    if (lua_pcall(L, 2, 2, 0) == LUA_OK) return;
  }
  lua_settop(L, top); /* uncovered: only when memory runs out */
  lua_pushnil(L);
  lua_pushnil(L);
}

/* Sets the field `waited` of the table on top of L. */
static void set_waited(lua_State *L, int64_t ns) {
  lua_pushnumber(L, ns > 0 ? (lua_Number)ns / (lua_Number)CLOCK_MS : 0);
  lua_setfield(L, -2, "waited");
}

/* Sets fields of the table on top of L, if the go block at index `at` stands for a thread: what the thread does. Returns
   whether it does. */
static bool set_thread(lua_State *L, int at) {
  static const char *const states[] = {"starting", "computing", "waiting", "ended"};
  attr_push(L, at, ATTR_THREAD);
  const StatusHold *held = (const StatusHold *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (LIKELY(!held)) return false;
  int64_t since;
  StatusKind kind = status_look(held->status, &since);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "thread");
  lua_pushstring(L, states[kind]);
  lua_setfield(L, -2, "state");
  if (since) set_waited(L, clock_now(&(Clock){0}) - since);
  const Owner *owner = status_owner(held->status);
  if (owner) shared_handle_push_waits(L, owner);
  else lua_newtable(L);
  lua_setfield(L, -2, "waits");
  return true;
}

/* Pushes the entry of ps for the go block at index `at`. */
static void push_entry(lua_State *L, Go *go, int at) {
  static const char *const states[] = {"running", "parked", "sleeping", "ready", "dead", "new"};
  const Alt *alt = &go->alt;
  lua_createtable(L, 0, 8);
  lua_pushinteger(L, (lua_Integer)go->chan.id);
  lua_setfield(L, -2, "id");
  name_push_go(L, go, at);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, states[alt->state]);
  lua_setfield(L, -2, "state");
  if (alt->state != ALT_IDLE) {
    name_push_where(L, go);
    lua_setfield(L, -2, "where");
  }
  lua_pushvalue(L, at);
  lua_setfield(L, -2, "result");
  if (set_thread(L, at)) return;
  if (alt->state == ALT_PARKED && alt->count && alt_is_active(alt)) set_operation(L, alt);
  if (alt->state == ALT_PARKED || alt->state == ALT_SLEEPING) {
    set_waited(L, alt->flags & ALT_BARE ? 0 : clock_now(&go->chan.sched->world.clock) - alt->since);
  }
}

/* Adds to the entry of ps on top of L what only the report of a deadlock asks for: `loops`; and of a go block of the
   library `fed`, what it was started with, and `is_hidden`: its name says where it waits, since that is not in a
   function of the program's. */
static void add_details(lua_State *L, const Go *go, int at) {
  set_loops(L, &go->alt);
  if (!(go->chan.flags & CHAN_FEEDS)) return;
  lua_getiuservalue(L, at, GO_FED);
  lua_setfield(L, -2, "fed");
  lua_pushboolean(L, !name_push_where(L, go));
  lua_setfield(L, -3, "is_hidden");
  lua_pop(L, 1);
}

/* A go block in a list of them. */
typedef struct Listed {
  uint64_t id; /* its id */
  uint32_t at; /* where it is in the list */
} Listed;

static int by_id(const void *a, const void *b) {
  uint64_t x = ((const Listed *)a)->id, y = ((const Listed *)b)->id;
  return (x > y) - (x < y);
}

/* Pushes a list of all go blocks, or (unless NULL) of those that are listed, in the order of their ids; `in_detail`:
   with what add_details adds. */
static void push_list(lua_State *L, bool (*is_listed)(lua_State *L, const Go *go), bool in_detail) {
  int list = lua_gettop(L) + 1;
  uint32_t n = root_push_list(L), found = 0;
  Listed *order = (Listed *)lua_newuserdatauv(L, (n + (size_t)1) * sizeof(Listed), 0);
  for (uint32_t i = 1; i <= n; i++) {
    const Go *go = root_push_listed(L, list, i);
    if (go && (!is_listed || is_listed(L, go))) order[found++] = (Listed){go->chan.id, i};
    lua_pop(L, 1);
  }
  qsort(order, found, sizeof(Listed), by_id);
  lua_newtable(L);
  int entries = lua_gettop(L);
  lua_Integer added = 0;
  for (uint32_t i = 0; i < found; i++) {
    Go *go = root_push_listed(L, list, order[i].at);
    if (go) {
      push_entry(L, go, entries + 1);
      if (in_detail && go->slot) add_details(L, go, entries + 1); /* else a finalizer has ended it */
      lua_rawseti(L, entries, ++added);
    }
    lua_settop(L, entries);
  }
  lua_replace(L, list);
  lua_settop(L, list);
}

void inspect_push_list(lua_State *L) { push_list(L, NULL, false); }

/* Pushes the line of a deadlock report for the entry of ps at index `entry`. */
static void push_line(lua_State *L, int entry) {
  int top = lua_gettop(L);
  lua_getfield(L, entry, "id");
  lua_getfield(L, entry, "name");
  bool is_thread = lua_getfield(L, entry, "waits") == LUA_TTABLE;
  if (lua_getfield(L, entry, is_thread ? "state" : "operation") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_getfield(L, entry, "state");
  }
  lua_pushfstring(L, "\n  #%I (%s): %s", (LUAI_UACINT)lua_tointeger(L, top + 1), lua_tostring(L, top + 2),
                  lua_tostring(L, top + 4));
  if (is_thread) {
    lua_getfield(L, entry, "result");
    describe_waits(L, top + 3);
  } else if (lua_getfield(L, entry, "channel") != LUA_TNIL) {
    attr_push_name(L, (Chan *)lua_touserdata(L, -1), lua_gettop(L));
    lua_pushfstring(L, " on %s", lua_tostring(L, -1));
  } else if (lua_getfield(L, entry, "channels") == LUA_TTABLE) {
    name_channels(L);
  } else {
    lua_pushliteral(L, ""); /* seldom covered: a finalizer has woken the go block meanwhile */
  }
  lua_getfield(L, entry, "where");
  const char *where = lua_tostring(L, -1);
  lua_pushfstring(L, "%s%s%s%s", lua_tostring(L, top + 5), lua_tostring(L, -2), where ? " at " : "",
                  where ? where : "");
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* Adds the lines of the list at index `list` to the buffer on top of L. */
static void add_lines(lua_State *L, luaL_Buffer *b, int list) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  for (lua_Integer i = 1; i <= n && i <= LISTED_IN_DEADLOCK; i++) {
    lua_rawgeti(L, list, i);
    push_line(L, lua_gettop(L));
    lua_remove(L, -2);
    luaL_addvalue(b);
  }
  if (n > LISTED_IN_DEADLOCK) {
    lua_pushfstring(L, "\n  and %I more", (LUAI_UACINT)(n - LISTED_IN_DEADLOCK));
    luaL_addvalue(b);
  }
}

/* Whether a go block belongs to the running simulation, if there is one. Those of others may have been left parked. */
static bool is_of_world(lua_State *L, const Go *go) { return go->chan.id >= sched_self(L)->world.first_id; }

/* Pushes what SCHED_EXPLAIN says about a deadlock, or an empty text. It may remove go blocks from the list. */
static void push_explanation(lua_State *L, int waiting, int list) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_EXPLAIN);
  lua_pushvalue(L, list);
  lua_pushvalue(L, waiting);
  if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_isstring(L, -1)) return;
  lua_settop(L, top); /* seldom covered: without the Lua part, or when memory runs out */
  lua_pushliteral(L, "");
}

int inspect_raise_deadlock(lua_State *L, const char *what) {
  int waits = lua_gettop(L) - 1;
  const char *waiting = lua_isstring(L, -1) ? lua_tostring(L, -1) : what;
  const Sched *S = sched_self(L);
  bool is_stuck = S->sharing && S->sharing->is_stuck;
  luaL_Buffer b;
  push_list(L, is_of_world, true);
  int list = lua_gettop(L);
  bool has_blocks = lua_rawlen(L, list) > 0;
  push_explanation(L, waits, list);
  int explanation = lua_gettop(L);
  luaL_buffinit(L, &b);
  lua_pushfstring(L,
                  "deadlock: %s would wait for ever: no go block is ready, no timer is pending, and the driver "
                  "expects no event%s",
                  waiting, is_stuck ? "; the threads that could complete it wait for ever, too" : "");
  luaL_addvalue(&b);
  if (!has_blocks) luaL_addstring(&b, "; there are no go blocks");
  lua_pushvalue(L, explanation);
  luaL_addvalue(&b);
  if (lua_rawlen(L, list) > 0) luaL_addstring(&b, "\nparked go blocks:");
  add_lines(L, &b, list);
  luaL_pushresult(&b);
  return error_raise(L);
}

/* ---- leaks ---- */

/* Whether a go block of the running simulation was started by the library. False for a pending callback. */
static bool is_of_library(lua_State *L, const Go *go) {
  return is_of_world(L, go) && !(go->alt.flags & ALT_CALLBACK) && name_is_library(L, go);
}

/* The same: by the program. */
static bool is_of_program(lua_State *L, const Go *go) {
  return is_of_world(L, go) && !(go->alt.flags & ALT_CALLBACK) && !name_is_library(L, go);
}

void inspect_check_leaks(lua_State *L, bool rests) {
  bool is_leak = false; /* looked for first: there is seldom a leak, and a list would take longer than the program */
  for (uint32_t i = root_count(sched_self(L)); i > 0 && !is_leak; i--) {
    const Go *go = root_push_at(L, i);
    is_leak = go && is_of_program(L, go);
    lua_pop(L, 1);
  }
  if (!is_leak) return;
  push_list(L, is_of_program, false);
  int list = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  if (n == 0) {
    lua_pop(L, 1);
    return;
  }
  push_list(L, is_of_library, false);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  lua_pushfstring(L, "leak: %I go block%s %s", (LUAI_UACINT)n, n == 1 ? "" : "s",
                  rests    ? n == 1 ? "waits for ever" : "wait for ever"
                  : n == 1 ? "goes on for ever"
                           : "go on for ever");
  luaL_addvalue(&b);
  add_lines(L, &b, list);
  if (lua_rawlen(L, list + 1)) luaL_addstring(&b, "\ngo blocks of the library:");
  add_lines(L, &b, list + 1);
  luaL_pushresult(&b);
  lua_error(L);
}

void inspect_set_up(lua_State *L) {
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, describe_waiting, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_DESCRIBE_WAITING);
}
