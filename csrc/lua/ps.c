/* lua/ps.c: see ps.h. */
#include "lua/ps.h"

#include <stdlib.h>

#include "core/attr.h"
#include "errors/inspect.h"
#include "errors/name.h"
#include "lifetimes/root.h"
#include "shared/status.h"
#include "states/family.h"
#include "states/shared_handle.h"

enum { NAMED = 4 }; /* operations of a thread that a report names, at most */

/* The status of the thread that a go block stands for, or NULL. The go block's result channel is at index `at`. */
static Status *status_of(lua_State *L, int at) {
  attr_push(L, at, ATTR_THREAD);
  const StatusHold *held = (const StatusHold *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return held ? held->status : NULL;
}

/* Sets the field `waited` of the table on top of L. */
static void set_waited(lua_State *L, int64_t ns) {
  lua_pushnumber(L, ns > 0 ? (lua_Number)ns / (lua_Number)CLOCK_MS : 0);
  lua_setfield(L, -2, "waited");
}

/* If the go block at index `at` stands for a thread, sets fields of the table on top of L to the thread's state.
   Returns whether it does. */
static bool set_thread(lua_State *L, int at) {
  static const char *const states[] = {"starting", "computing", "waiting", "ended"};
  Status *status = status_of(L, at);
  if (LIKELY(!status)) return false;
  int64_t since;
  StatusKind kind = status_look(status, &since);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "thread");
  lua_pushstring(L, states[kind]);
  lua_setfield(L, -2, "state");
  if (since) set_waited(L, clock_ns() - since);
  const Owner *owner = status_owner(status);
  if (owner) shared_handle_push_waits(L, owner);
  else lua_newtable(L);
  lua_setfield(L, -2, "waits");
  return true;
}

/* The names of states, by AltState. */
static const char *const states_of_go[] = {"running", "parked", "sleeping", "ready", "dead", "new"};

void ps_push_counts(lua_State *L) {
  enum { STATES = sizeof states_of_go / sizeof *states_of_go };
  const Sched *S = sched_self(L);
  lua_Integer counts[STATES] = {0};
  for (uint32_t i = 1; i <= root_count(S); i++) {
    const Go *go = root_push_at(L, i);
    if (go && !chan_is_hidden(&go->chan) && go->alt.state < STATES) counts[go->alt.state]++;
    lua_pop(L, 1);
  }
  lua_createtable(L, 0, STATES);
  for (int i = 0; i < STATES; i++) {
    lua_pushinteger(L, counts[i]);
    lua_setfield(L, -2, states_of_go[i]);
  }
}

void ps_push_entry(lua_State *L, Go *go, int at) {
  const Alt *alt = &go->alt;
  lua_createtable(L, 0, 8);
  lua_pushinteger(L, (lua_Integer)go->chan.id);
  lua_setfield(L, -2, "id");
  name_push_go(L, go, at);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, states_of_go[alt->state]);
  lua_setfield(L, -2, "state");
  if (alt->state != ALT_IDLE) {
    name_push_where(L, go);
    lua_setfield(L, -2, "where");
  }
  lua_pushvalue(L, at);
  lua_setfield(L, -2, "result");
  if (set_thread(L, at)) return;
  if (alt->count && alt_is_active(alt)) inspect_set_operation(L, alt);
  if (alt->state == ALT_PARKED || alt->state == ALT_SLEEPING) {
    set_waited(L, alt->flags & ALT_BARE ? 0 : clock_now(&go->chan.sched->world.clock) - alt->since);
  }
}

/* If the go block at index `at` stands for a thread, sets the field `hidden` of the table on top of L: a list of texts
   such as "take on chan: jobs", of the thread's waits on channels that this state does not have, and as `n` their
   number. */
static void set_hidden(lua_State *L, int at) {
  Status *status = status_of(L, at);
  const Owner *owner = status ? status_owner(status) : NULL;
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

/* Adds to the entry of ps on top of L the fields that only reports need: `loops`, `hidden`, `is_callback`,
   `is_library`; and for a go block that feeds a channel `fed`, its arguments, and `is_silent`: it waits in no function
   of the program, so its name says where. */
static void add_details(lua_State *L, const Go *go, int at) {
  set_flag(L, "loops", go->alt.flags & ALT_LOOP);
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
  uint64_t id;  /* its id */
  uint32_t at;  /* where it is in the list */
  bool is_left; /* ps leaves it out */
} Listed;

static int by_id(const void *a, const void *b) {
  uint64_t x = ((const Listed *)a)->id, y = ((const Listed *)b)->id;
  return (x > y) - (x < y);
}

/* Sets the field `holder` of the entry on top of L. The list of all go blocks is at index `list`; `all` are sorted. */
static void set_holder(lua_State *L, const Alt *alt, int list, const Listed *all, uint32_t n) {
  const Waiter *w = inspect_used_up(alt);
  if (!w) return;
  Listed key = {.id = w->chan->last};
  const Listed *found = (const Listed *)bsearch(&key, all, n, sizeof key, by_id);
  int entry = lua_gettop(L);
  Go *go = found ? root_push_listed(L, list, found->at) : NULL;
  lua_pushvalue(L, entry);
  inspect_set_holder(L, alt, w, go, entry + 1);
  lua_settop(L, entry);
}

void ps_push_list(lua_State *L, bool for_report) {
  const Sched *S = sched_self(L);
  int list = lua_gettop(L) + 1;
  uint32_t n = root_push_list(L), found = 0;
  Listed *order = (Listed *)lua_newuserdatauv(L, (n + (size_t)1) * sizeof(Listed), 0);
  for (uint32_t i = 1; i <= n; i++) {
    const Go *go = root_push_listed(L, list, i);
    if (go)
      order[found++] = (Listed){go->chan.id, i, chan_is_hidden(&go->chan) || (for_report && !sched_is_of_world(S, go))};
    lua_pop(L, 1);
  }
  qsort(order, found, sizeof(Listed), by_id);
  lua_newtable(L);
  int entries = lua_gettop(L);
  lua_Integer added = 0;
  for (uint32_t i = 0; i < found; i++) {
    Go *go = order[i].is_left ? NULL : root_push_listed(L, list, order[i].at);
    if (go) {
      ps_push_entry(L, go, entries + 1);
      if (go->slot) set_holder(L, &go->alt, list, order, found);
      if (for_report && go->slot) add_details(L, go, entries + 1); /* else a finalizer has ended it */
      lua_rawseti(L, entries, ++added);
    }
    lua_settop(L, entries);
  }
  lua_replace(L, list);
  lua_settop(L, list);
}
