/* root.c: see root.h.

   A sweep continues where the last one has stopped. A round goes from the end of each table to its beginning; the next
   round begins at the end again. When a root is removed, the last one takes its index (root_table.c): the round has
   visited that root, or it is newer. So a round visits all roots that were there when it began. */
#include "lifetimes/root.h"

#include <lauxlib.h>

#include "core/attr.h"
#include "core/others.h"
#include "core/setup.h"
#include "lifetimes/keep.h"

enum {
  AT_SPAWN = 4,        /* roots that a start visits: 2 us if it demotes all of them */
  CHUNK = 512,         /* roots that the loop visits in a millisecond: 0.2 ms if it demotes all of them */
  PARKED_LEAST = 1024, /* with fewer parked strong roots only the collector's cycle sweeps */
  CYCLE_LEAST = 8192   /* roots that a cycle of the collector visits; the loop visits the rest */
};

/* Each go block that is started and parks pays for AT_SPAWN visits. So the abandoned go blocks that no sweep has
   visited yet are at most a third of the strong roots that cannot be demoted, and no start takes long. They must be
   few: the collector cannot free them, and their memory delays its next cycle. */

/* ---- strong and weak ---- */

/* Removes a weak root, whose userdata is at index `at`, from the attributes of its channels, and stores its coroutine
   in GO_COROUTINE again. Finds the channels in GO_WAITS: its stack is empty if other code closes the coroutine. */
static void release(lua_State *L, const Go *go, int at) {
  int type = lua_getiuservalue(L, at, GO_WAITS), waits = lua_gettop(L);
  if (type != LUA_TTHREAD) { /* else it had not parked yet */
    uint32_t n = type == LUA_TTABLE ? go->alt.count : 1;
    for (uint32_t i = 1; i <= n; i++) {
      if (type == LUA_TTABLE) lua_rawgeti(L, waits, i);
      else lua_pushvalue(L, waits);
      attr_push_table(L, waits + 1);
      lua_pushvalue(L, at);
      lua_pushnil(L);
      lua_rawset(L, -3);
      lua_settop(L, waits);
    }
    lua_pushthread(go->alt.co);
    lua_xmove(go->alt.co, L, 1);
    lua_setiuservalue(L, at, GO_COROUTINE);
  }
  lua_settop(L, waits - 1);
}

void root_make_strong(lua_State *L, Sched *S, Go *go, int at) {
  if (LIKELY(root_push_weak(L, go))) { /* else see root.h */
    root_remove_weak(L, S, go->slot);
    lua_pop(L, 1);
  }
  root_add_strong(L, S, go, at);
  release(L, go, at);
  S->note_weak(L, go, false);
  go->alt.flags &= (uint8_t)~ALT_WEAK;
}

void root_promote(lua_State *L, Sched *S, Go *go) {
  int top = lua_gettop(L);
  if (UNLIKELY(!root_push_weak(L, go))) {
    /* Its weak reference was cleared (root.h), but each of its channels still has it. */
    alt_push_channel(L, alt_waiters(&go->alt));
    attr_push_table(L, top + 1);
    lua_pushnil(L);
    while (lua_next(L, top + 2)) {
      lua_pop(L, 1);
      if (lua_touserdata(L, -1) == go) break;
    }
  }
  root_make_strong(L, S, go, lua_gettop(L));
  lua_settop(L, top);
}

/* Whether a strong root waits on channels only: if no code can reach them, nothing will wake it. */
static bool may_be_abandoned(const Go *go) {
  const Alt *alt = &go->alt;
  if (alt->state == ALT_NEW) return true;
  if (alt->count == 0 || !alt_is_active(alt)) return false;
  const Others *others = go->chan.sched->others;
  if (UNLIKELY(alt->shared) && others->is_open(go->chan.sched, alt)) return false; /* another state may wake it */
  for (uint32_t i = 0; i < alt->count; i++) {
    const Chan *ch = alt_waiters(alt)[i].chan;
    if (LIKELY(!(ch->flags & (CHAN_TIMEOUT | CHAN_DONE_SHARED)))) continue;
    if (ch->flags & CHAN_TIMEOUT || others->may_close(ch)) return false; /* the timer, or another state */
  }
  return true;
}

/* Makes the missing tables of attributes of a parked go block's channels. Returns whether one was missing. */
static bool make_tables(lua_State *L, const Alt *alt) {
  bool made = false;
  for (uint32_t i = 0; i < alt->count; i++) {
    alt_push_channel(L, &alt_waiters(alt)[i]);
    if (attr_table(L, lua_gettop(L))) made = true;
    lua_pop(L, 2);
  }
  return made;
}

/* The size of the table GO_WAITS of a parked alts; 0 for a single operation. */
static uint32_t size_of_waits(const Alt *alt) { return alt->flags & ALT_SELECT ? alt->count + 1 : 0; }

/* Demotes the strong root on top of the stack: from now on its channels keep it and its coroutine alive. May raise half
   way: it does no harm if some of its channels keep it alive already. */
static void demote(lua_State *L, Sched *S, Go *go) {
  Alt *alt = &go->alt;
  int at = lua_gettop(L), waits = at + 1;
  make_tables(L, alt);
  uint32_t size = size_of_waits(alt);
  if (size) lua_createtable(L, (int)size, 0);
  /* A finalizer may have run and woken the go block, which may have ended, or parked elsewhere. */
  if (!go->slot || !may_be_abandoned(go) || make_tables(L, alt) || size_of_waits(alt) > size) {
    lua_settop(L, at); /* seldom covered: a finalizer ran at this very allocation */
    return;
  }
  if (go->chan.waiting[TAKES]) keep_list(L, &go->chan, at); /* from now on its result is kept as any other channel */
  else if (!(go->chan.flags & CHAN_LISTED)) go->chan.flags &= ~(uint32_t)CHAN_KEPT;
  bool is_alts = alt->flags & ALT_SELECT;
  if (is_alts) {
    lua_pushvalue(alt->co, ALT_BLOCK);
    lua_xmove(alt->co, L, 1);
    lua_rawseti(L, waits, alt->count + 1);
  }
  for (uint32_t i = 0; i < alt->count; i++) {
    alt_push_channel(L, &alt_waiters(alt)[i]);
    attr_push_table(L, lua_gettop(L));
    lua_pushvalue(L, at);
    lua_getiuservalue(L, at, GO_COROUTINE);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    if (is_alts) lua_rawseti(L, waits, i + 1);
  }
  root_move_to_weak(L, S, go, at);
  if (alt->count) lua_setiuservalue(L, at, GO_WAITS); /* the table, or the single channel, replaces the coroutine */
  lua_settop(L, at);
  alt->flags |= ALT_WEAK;
  if (is_alts) alt_waiters(alt)->is_weak = true;
  S->note_weak(L, go, true); /* last: may run finalizers */
}

/* ---- sweeps ---- */

/* The number of strong roots that may be parked: those that are not in the run queue. */
static uint32_t idle(const Sched *S) {
  return S->roots.strong > S->world.nready ? S->roots.strong - S->world.nready : 0;
}

/* The index to visit in a table of `n` roots; *next is the next index, or 0 at the end of a round. */
static uint32_t advance(uint32_t *next, uint32_t n) {
  if (*next == 0 || *next > n) *next = n;
  return (*next)--;
}

/* Removes the next weak root if it was collected; their table is at index `weak`. */
static void visit_weak(lua_State *L, Sched *S, int weak) {
  uint32_t i = advance(&S->roots.next_weak, S->roots.weak);
  if (lua_rawgeti(L, weak, i) == LUA_TNIL) root_remove_weak(L, S, i);
  lua_pop(L, 1);
}

/* Demotes the next strong root if it may be abandoned; in a cycle only if it was parked already in the last one. Does
   nothing while a simulation looks for leaks: the collector would hide them. */
static void visit_strong(lua_State *L, Sched *S, int strong) {
  Roots *r = &S->roots;
  if (S->world.seeks_leaks) return;
  lua_rawgeti(L, strong, advance(&r->next_strong, r->strong));
  Go *go = (Go *)lua_touserdata(L, -1);
  if (may_be_abandoned(go) && (!r->is_cycle || go->alt.since <= r->last_cycle)) demote(L, S, go);
  lua_pop(L, 1);
}

/* Protected: (n) visits up to n roots of each kind. */
static int sweep_protected(lua_State *L) {
  enum { COUNT = 1, STRONG, WEAK };
  Sched *S = sched_self(L);
  Roots *r = &S->roots;
  lua_Integer n = lua_tointeger(L, COUNT);
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG); /* only a sweep replaces this table */
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  for (lua_Integer i = n < r->weak ? n : r->weak; i > 0 && r->weak; i--) visit_weak(L, S, WEAK);
  for (lua_Integer i = n < r->strong ? n : r->strong; i > 0 && r->strong; i--) visit_strong(L, S, STRONG);
  if (r->is_cycle) {
    root_shrink(L, S);
    keep_shrink(L, S);
  }
  return 0;
}

/* Visits `n` roots of each kind. If memory runs out, the other roots stay as they are. Does not raise. */
static void sweep(lua_State *L, Sched *S, uint32_t n, bool is_cycle) {
  Roots *r = &S->roots;
  if (r->sweeping) return; /* a sweep allocates, and so may run a finalizer that comes here */
  r->sweeping = true;
  uint32_t before = idle(S);
  r->is_cycle = is_cycle;
  lua_getiuservalue(L, SCHED_SELF, SCHED_SWEEP);
  lua_pushinteger(L, n);
  r->failed = lua_pcall(L, 1, 0, 0) != LUA_OK;
  if (r->failed) lua_pop(L, 1);
  r->sweeping = false;
  keep_trim(L, S, n, KEEP_QUICK); /* what weak roots wait on is not needed in the list any more */
  uint32_t after = idle(S), limit = after < r->limit ? after : r->limit;
  if (after >= before) limit++; /* it has found only roots that must stay strong */
  r->limit = limit < PARKED_LEAST ? PARKED_LEAST : limit;
}

void root_add(lua_State *L, Sched *S, Go *go, int at) {
  if (UNLIKELY(idle(S) >= S->roots.limit)) sweep(L, S, AT_SPAWN, false);
  root_add_strong(L, S, go, at);
}

/* ---- the sentinel ----

   A userdata without references, but for a weak one in SCHED_WEAK. Its finalizer runs once a cycle, sweeps, and makes
   the next sentinel.

   When memory is short, an allocation ends in a full collection. If that found the next sentinel dead, it would call
   its finalizer, and so on: the collection would never end. So the finalizer holds the next sentinel while it
   allocates; and once an allocation has failed, it makes none and does nothing until the scheduler has run. Then
   root_maintain makes one, also if the finalizer could not be called at all. */

/* Protected: makes the sentinel, if there is none, and returns it. Its metatable is the second upvalue. */
static int make_sentinel(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  if (lua_rawgeti(L, 1, ROOT_SENTINEL) == LUA_TNIL) {
    lua_newuserdatauv(L, 0, 0);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawseti(L, 1, ROOT_SENTINEL);
  }
  return 1;
}

/* __gc of the sentinel. */
static int on_cycle(lua_State *L) {
  Sched *S = sched_self(L);
  Roots *r = &S->roots;
  lua_settop(L, 1);
  if (r->failed) return 0;
  lua_getiuservalue(L, SCHED_SELF, SCHED_SENTINEL);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
    r->failed = true;
    return 0;
  }
  /* If the loop has not run since the last cycle, the program collects again and again: each cycle visits all roots. */
  bool loop_runs = S->running && r->last_cycle != S->world.looked;
  uint32_t n = root_count(S), now = loop_runs && n > CYCLE_LEAST ? CYCLE_LEAST : n;
  r->due = n - now;
  sweep(L, S, now, true);
  keep_trim(L, S, S->kept.size, KEEP_ALL);
  r->last_cycle = S->world.looked;
  return 0;
}

void root_maintain(lua_State *L, Sched *S) {
  Roots *r = &S->roots;
  r->failed = false;
  if (UNLIKELY(r->due)) {
    uint32_t n = r->due < CHUNK ? r->due : CHUNK;
    r->due -= n;
    sweep(L, S, n, true);
  }
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  bool is_there = lua_rawgeti(L, -1, ROOT_SENTINEL) != LUA_TNIL;
  lua_pop(L, 2);
  if (LIKELY(is_there)) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_SENTINEL);
  lua_pcall(L, 0, 1, 0);
  lua_pop(L, 1); /* the sentinel, or the error that memory ran out */
}

void root_open(lua_State *L) {
  Sched *S = sched_self(L);
  S->roots.limit = PARKED_LEAST;
  root_table_open(L);
  setup_keep_function(L, SCHED_SWEEP, sweep_protected);
  lua_pushvalue(L, SCHED_SELF);
  setup_push_meta(L, "__gc", on_cycle);
  lua_pushcclosure(L, make_sentinel, 2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_SENTINEL);
  root_maintain(L, S);
}
