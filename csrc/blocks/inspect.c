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

enum { NAMED = 4 }; /* operations of a thread that a report names, at most */

/* Pushes the channel of a waiter. */
static void push_channel(lua_State *L, const Waiter *w) {
  lua_pushvalue(w->alt->co, w->at);
  lua_xmove(w->alt->co, L, 1);
}

lua_Integer inspect_push_channels(lua_State *L, const Alt *alt) {
  lua_Integer n = 0;
  lua_createtable(L, (int)alt->count, 0);
  for (uint32_t i = 0; i < alt->count; i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    if (chan_is_hidden(w->chan)) continue;
    push_channel(L, w);
    lua_rawseti(L, -2, ++n);
  }
  return n;
}

/* Sets fields of the table on top of L that tell what a parked alt waits for: `operation`, which is "take", "put" or
   "alts", and `channel`, or `channels` of an alts; only an operation "idle" if its channels are hidden. */
static void set_operation(lua_State *L, const Alt *alt) {
  const Waiter *first = alt_waiters(alt);
  const char *what = first->is_put ? "put" : "take";
  if (alt->flags & ALT_SELECT) {
    what = inspect_push_channels(L, alt) ? "alts" : "idle";
    lua_setfield(L, -2, "channels");
  } else if (chan_is_hidden(first->chan)) {
    what = "idle";
  } else {
    push_channel(L, first); /* first, since an allocation may run a finalizer that ends the go block */
    lua_setfield(L, -2, "channel");
  }
  lua_pushstring(L, what);
  lua_setfield(L, -2, "operation");
}

/* Sets the field `loops` of the table on top of L, if it is a for loop that waits. */
static void set_loops(lua_State *L, const Alt *alt) {
  if (!(alt->flags & ALT_LOOP)) return;
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "loops");
}

/* The owner of the thread for which a go block, whose result channel is at index `at`, stands; or NULL. */
static const Owner *owner_of(lua_State *L, int at) {
  attr_push(L, at, ATTR_THREAD);
  const StatusHold *held = (const StatusHold *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return held ? status_owner(held->status) : NULL;
}

/* Protected: (alt, name of the operation) -> what inspect_push_waiting pushes. */
static int describe_waiting(lua_State *L) {
  const Alt *alt = (const Alt *)lua_touserdata(L, 1);
  const char *what = (const char *)lua_touserdata(L, 2);
  lua_createtable(L, 0, 4);
  if (alt->flags & ALT_SELECT || strcmp(what, "take") == 0 || strcmp(what, "put") == 0) set_operation(L, alt);
  set_loops(L, alt);
  return 1;
}

void inspect_push_waiting(lua_State *L, Alt *alt, const char *what) {
  if (lua_checkstack(L, LUA_MINSTACK)) {
    lua_pushcfunction(L, describe_waiting);
    lua_pushlightuserdata(L, alt);
    lua_pushlightuserdata(L, (void *)(uintptr_t)what); /* only ever read through a const pointer */
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) return;
    lua_pop(L, 1); /* uncovered: only when memory runs out */
  }
  lua_pushnil(L); /* uncovered: see above */
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

void inspect_push_entry(lua_State *L, Go *go, int at) {
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

/* Sets the field `hidden` of the table on top of L, if the go block at index `at` stands for a thread: a list of texts
   such as "take on chan: jobs", of what the thread waits for on channels that this state does not have, and as `n` how
   many they are. */
static void set_hidden(lua_State *L, int at) {
  const Owner *owner = owner_of(L, at);
  if (!owner) return;
  MemberWait hidden[NAMED];
  uint32_t n = family_waits(sched_self(L)->sharing, owner, hidden, NAMED);
  lua_newtable(L);
  for (uint32_t i = 0; i < n && i < NAMED; i++) {
    lua_pushfstring(L, "%s on %s%s", hidden[i].is_put ? "put" : "take",
                    hidden[i].name[0] ? "chan: " : "an unnamed channel", hidden[i].name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushinteger(L, n);
  lua_setfield(L, -2, "n");
  lua_setfield(L, -2, "hidden");
}

static void set_flag(lua_State *L, const char *name, bool is_set) {
  if (!is_set) return;
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, name);
}

/* Adds to the entry of ps on top of L what only reports ask for: `loops`, `hidden`, `is_callback`, `is_library`; and of a
   go block that feeds a channel `fed`, what it was started with, and `is_silent`: it waits in no function of the
   program's, so its name says where. */
static void add_details(lua_State *L, const Go *go, int at) {
  set_loops(L, &go->alt);
  set_hidden(L, at);
  set_flag(L, "is_callback", go->alt.flags & ALT_CALLBACK);
  set_flag(L, "is_library", name_is_library(L, go));
  if (!(go->chan.flags & CHAN_FEEDS)) return;
  lua_getiuservalue(L, at, GO_FED);
  lua_setfield(L, -2, "fed");
  bool has_where = name_push_where(L, go);
  lua_pop(L, 1);
  set_flag(L, "is_silent", !has_where);
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

/* Whether a go block belongs to the running simulation, if there is one. Those of others may have been left parked. */
static bool is_of_world(const Sched *S, const Go *go) { return go->chan.id >= S->world.first_id; }

/* Pushes a list of all go blocks that are not hidden, in the order of their ids; or `for_report`, of those of the running world, with what
   add_details adds. */
static void push_list(lua_State *L, bool for_report) {
  const Sched *S = sched_self(L);
  int list = lua_gettop(L) + 1;
  uint32_t n = root_push_list(L), found = 0;
  Listed *order = (Listed *)lua_newuserdatauv(L, (n + (size_t)1) * sizeof(Listed), 0);
  for (uint32_t i = 1; i <= n; i++) {
    const Go *go = root_push_listed(L, list, i);
    if (go && !chan_is_hidden(&go->chan) && (!for_report || is_of_world(S, go)))
      order[found++] = (Listed){go->chan.id, i};
    lua_pop(L, 1);
  }
  qsort(order, found, sizeof(Listed), by_id);
  lua_newtable(L);
  int entries = lua_gettop(L);
  lua_Integer added = 0;
  for (uint32_t i = 0; i < found; i++) {
    Go *go = root_push_listed(L, list, order[i].at);
    if (go) {
      inspect_push_entry(L, go, entries + 1);
      if (for_report && go->slot) add_details(L, go, entries + 1); /* else a finalizer has ended it */
      lua_rawseti(L, entries, ++added);
    }
    lua_settop(L, entries);
  }
  lua_replace(L, list);
  lua_settop(L, list);
}

void inspect_push_list(lua_State *L) { push_list(L, false); }

/* ---- reports ---- */

/* Calls the function `name` of SCHED_REPORTS with the `n` values on top of L, which are replaced by its text. Returns false
   if there is no such function, no text, or no memory. */
static bool write_report(lua_State *L, const char *name, int n) {
  int base = lua_gettop(L) - n + 1;
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_REPORTS) == LUA_TTABLE) {
    lua_getfield(L, -1, name);
    lua_replace(L, -2);
    lua_insert(L, base);
    if (lua_pcall(L, n, 1, 0) == LUA_OK && lua_isstring(L, base)) return true;
  }
  lua_settop(L, base - 1);
  return false;
}

int inspect_raise_deadlock(lua_State *L, const char *what) {
  const Sched *S = sched_self(L);
  bool is_stuck = S->sharing && S->sharing->is_stuck;
  lua_pushstring(L, what);
  lua_pushboolean(L, is_stuck);
  push_list(L, true);
  if (!write_report(L, "deadlock", 4)) lua_pushfstring(L, "deadlock: %s would wait for ever", what);
  return error_raise(L);
}

void inspect_check_leaks(lua_State *L, bool rests) {
  const Sched *S = sched_self(L);
  bool is_leak = false; /* looked for first: there is seldom a leak, and a list would take longer than the program */
  for (uint32_t i = root_count(S); i > 0 && !is_leak; i--) {
    const Go *go = root_push_at(L, i);
    is_leak = go && is_of_world(S, go) && !(go->alt.flags & ALT_CALLBACK) && !name_is_library(L, go);
    lua_pop(L, 1);
  }
  if (!is_leak) return;
  push_list(L, true);
  lua_pushboolean(L, rests);
  if (write_report(L, "leak", 2)) lua_error(L);
}
