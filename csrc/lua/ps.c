/* lua/ps.c: see ps.h. */
#include "lua/ps.h"

#include <stdlib.h>

#include "core/attr.h"
#include "errors/inspect.h"
#include "errors/name.h"
#include "lifetimes/root.h"
#include "lua/turn.h"
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

/* ---- the walk over all go blocks ---- */

/* A go block in a list of them. */
typedef struct Listed {
  uint64_t id; /* its id */
  uint32_t at; /* where it is in the list */
} Listed;

/* Parts: what is done between two turns of the others, at most about 1 ms. */
enum { PART_FOUND = 8192, PART_ROWS = 500 };

/* The ids are sorted by DIGIT bits at a time. */
enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* The state of a walk, a userdata. */
typedef struct Walk {
  bool for_report;  /* with what only reports need, and only of this world */
  uint32_t n;       /* go blocks in the list */
  uint32_t i;       /* how many of them were looked at, or, once they are sorted, have a row or none */
  uint32_t found;   /* how many of them live */
  uint32_t shift;   /* the bits of the ids by which they are sorted */
  bool is_sorted;   /* by all bits */
  bool is_swapped;  /* they are in the second half of `all` */
  lua_Integer rows; /* rows so far */
  Listed all[];     /* twice n */
} Walk;

/* The stack of a walk: the Walk, the weak list of go blocks, the rows. */
enum { AT_WALK = 1, AT_LIST, AT_ROWS };

static Listed *listed(Walk *w, bool other) { return w->all + (w->is_swapped != other ? w->n : 0); }

/* Sorts the go blocks by the next bits of their ids. */
static void sort_by_digit(Walk *w) {
  const Listed *from = listed(w, false);
  Listed *to = listed(w, true);
  uint32_t ends[DIGITS + 1] = {0};
  uint64_t higher = 0;
  for (uint32_t i = 0; i < w->found; i++) {
    higher |= from[i].id >> w->shift;
    ends[(from[i].id >> w->shift & (DIGITS - 1)) + 1]++;
  }
  for (int d = 0; d < DIGITS; d++) ends[d + 1] += ends[d];
  for (uint32_t i = 0; i < w->found; i++) to[ends[from[i].id >> w->shift & (DIGITS - 1)]++] = from[i];
  w->is_swapped = !w->is_swapped;
  w->shift += DIGIT;
  w->is_sorted = higher >> DIGIT == 0;
}

/* Looks for those that live. */
static void find(lua_State *L, Walk *w) {
  for (uint32_t part = 0; w->i < w->n && part < PART_FOUND; part++) {
    const Go *go = root_push_listed(L, AT_LIST, ++w->i);
    if (go) w->all[w->found++] = (Listed){go->chan.id, w->i};
    lua_pop(L, 1);
  }
}

static int by_id(const void *a, const void *b) {
  uint64_t x = ((const Listed *)a)->id, y = ((const Listed *)b)->id;
  return (x > y) - (x < y);
}

/* Sets the field `holder` of the entry on top of L. */
static void set_holder(lua_State *L, const Alt *alt, Walk *walk) {
  const Waiter *w = inspect_used_up(alt);
  if (!w) return;
  Listed key = {.id = w->chan->last};
  const Listed *found = (const Listed *)bsearch(&key, listed(walk, false), walk->found, sizeof key, by_id);
  int entry = lua_gettop(L);
  Go *go = found ? root_push_listed(L, AT_LIST, found->at) : NULL;
  lua_pushvalue(L, entry);
  inspect_set_holder(L, alt, w, go, entry + 1);
  lua_settop(L, entry);
}

/* Adds the rows of the next go blocks that still live. */
static void add_rows(lua_State *L, const Sched *S, Walk *w) {
  for (uint32_t part = 0; w->i < w->found && part < PART_ROWS; part++) {
    Go *go = root_push_listed(L, AT_LIST, listed(w, false)[w->i++].at);
    bool is_left = !go || chan_is_hidden(&go->chan) || (w->for_report && !sched_is_of_world(S, go));
    if (!is_left) {
      ps_push_entry(L, go, AT_ROWS + 1);
      if (go->slot) set_holder(L, &go->alt, w);
      if (w->for_report && go->slot) add_details(L, go, AT_ROWS + 1); /* else a finalizer has ended it */
      lua_rawseti(L, AT_ROWS, ++w->rows);
    }
    lua_settop(L, AT_ROWS);
  }
}

/* Does the next part. Returns false if there is none. */
static bool go_on(lua_State *L, const Sched *S) {
  Walk *w = (Walk *)lua_touserdata(L, AT_WALK);
  if (!w->is_sorted) {
    if (w->i < w->n) find(L, w);
    else sort_by_digit(w);
    if (w->is_sorted) w->i = 0;
    return true;
  }
  add_rows(L, S, w);
  return w->i < w->found;
}

/* Begins a walk; L is empty. */
static void begin(lua_State *L, bool for_report) {
  lua_settop(L, 0);
  lua_pushnil(L);
  uint32_t n = root_push_list(L);
  Walk *w = (Walk *)lua_newuserdatauv(L, sizeof *w + 2 * (size_t)n * sizeof(Listed), 0);
  *w = (Walk){.for_report = for_report, .n = n};
  lua_replace(L, AT_WALK);
  lua_createtable(L, (int)n, 0);
}

void ps_push_report(lua_State *L) {
  begin(L, true);
  while (go_on(L, sched_self(L))) continue;
}

static const Operation PS = {.name = "ps"};

/* Lets the others have a turn after each part, unless that is impossible here. A walk of one part has no turn. */
static int walk(lua_State *L, int status, lua_KContext alt) {
  Sched *S = sched_self(L);
  if (status != LUA_OK) (void)park_resumed(L, (Alt *)alt);
  lua_settop(L, AT_ROWS);
  while (go_on(L, S)) {
    bool is_long = ((Walk *)lua_touserdata(L, AT_WALK))->n > PART_ROWS;
    if (is_long && turn_between(L, S)) return park_yield(L, S, &PS, walk);
  }
  return 1;
}

int ps_walk(lua_State *L) {
  begin(L, false);
  return walk(L, LUA_OK, 0);
}

/* ---- counting them ---- */

enum { STATES = sizeof states_of_go / sizeof *states_of_go };

/* The state of a count, a userdata at AT_WALK. */
typedef struct Count {
  uint32_t n, i;                /* go blocks in the list; how many of them were looked at */
  lua_Integer by_state[STATES]; /* how many were in each state */
} Count;

static void count_part(lua_State *L, Count *c) {
  for (uint32_t part = 0; c->i < c->n && part < PART_FOUND; part++) {
    const Go *go = root_push_listed(L, AT_LIST, ++c->i);
    if (go && !chan_is_hidden(&go->chan) && go->alt.state < STATES) c->by_state[go->alt.state]++;
    lua_pop(L, 1);
  }
}

static const Operation COUNT = {.name = "metrics"};

static int count(lua_State *L, int status, lua_KContext alt) {
  Sched *S = sched_self(L);
  if (status != LUA_OK) (void)park_resumed(L, (Alt *)alt);
  lua_settop(L, AT_LIST);
  Count *c = (Count *)lua_touserdata(L, AT_WALK);
  count_part(L, c);
  while (c->i < c->n) {
    if (turn_between(L, S)) return park_yield(L, S, &COUNT, count);
    count_part(L, c);
  }
  lua_createtable(L, 0, STATES);
  for (int i = 0; i < STATES; i++) {
    lua_pushinteger(L, c->by_state[i]);
    lua_setfield(L, -2, states_of_go[i]);
  }
  return 1;
}

int ps_count(lua_State *L) {
  lua_settop(L, 0);
  Count *c = (Count *)lua_newuserdatauv(L, sizeof *c, 0);
  *c = (Count){.n = root_push_list(L)};
  return count(L, LUA_OK, 0);
}
