/* root.c: see root.h.

   A slot of SCHED_STRONG holds
     the userdata of a strong root;
     false for a weak root: SCHED_WEAK refers to it weakly until it is collected;
     true if the slot is free and in Roots.recent;
     a number if it is free and in the free list: twice the next one, plus the parity of the lap that linked it.

   Sweeps go round in laps. A lap visits every slot once, from the last to the first, a few at a time. It demotes what
   waits on channels, and rebuilds the free list, so that the lowest slots are used first and those at the end are
   dropped. When a lap begins the free list is empty, and so is Roots.recent: a free slot whose parity is that of the lap
   before is no longer in the list. */
#include "lifetimes/root.h"

#include <lauxlib.h>

#include "core/attr.h"
#include "core/others.h"
#include "lifetimes/keep.h"
#include "lifetimes/root_shrink.h"

enum {
  CHUNK = 512,          /* slots that a sweep visits when a go block is started: 0.2 ms if it demotes all of them */
  CHUNK_EVERY = 64,     /* such a sweep each time that so many more go blocks are idle: see below */
  IDLE_AT_LEAST = 1024, /* with fewer idle go blocks only the collector's cycle sweeps */
  CYCLE_SHARE = 8,      /* a cycle of the collector visits one slot in so many */
  CYCLE_LEAST = 16384   /* and at least so many: with fewer slots, each cycle visits all */
};

/* CHUNK / CHUNK_EVERY slots are visited for each go block that becomes idle, so a lap takes size / 8 of these. What is
   abandoned within a lap survives the collector's next cycle, and makes the cycle after that come later. With size / 4
   memory grew without limit in programs whose other data is large, 50 MB for example. */

/* How many strong roots may be parked: those in the run queue are not. */
static uint32_t idle(const Sched *S) {
  return S->roots.strong > S->world.nready ? S->roots.strong - S->world.nready : 0;
}

/* The content of a slot that becomes the first of the free list. */
static lua_Integer link_to_free(const Roots *a) { return (lua_Integer)a->free << 1 | a->lap; }

/* Puts a go block, whose userdata is at index `at`, into a free slot. May raise. */
static void take_slot(lua_State *L, Roots *a, Go *go, int at) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  uint32_t slot = a->free;
  if (LIKELY(a->nrecent)) {
    slot = a->recent[--a->nrecent];
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, slot);
  } else if (slot) {
    lua_rawgeti(L, -1, slot);
    uint32_t next = (uint32_t)(lua_tointeger(L, -1) >> 1);
    lua_pop(L, 1);
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, slot);
    a->free = next;
  } else {
    lua_Integer last = (lua_Integer)a->size + 1;
    lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
    lua_pushboolean(L, 0); /* makes room now, in ascending order: laps go backwards, and Lua would make a hash table */
    lua_rawseti(L, -2, last);
    lua_pop(L, 1);
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, last); /* may raise, as before: nothing has changed */
    slot = ++a->size;
    root_note_use(&a->use, slot);
  }
  go->slot = slot;
  a->strong++;
  lua_pop(L, 1);
}

void root_push(lua_State *L, const Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  lua_rawgeti(L, -1, go->slot);
  lua_replace(L, -2);
}

void root_remove(lua_State *L, Sched *S, Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  lua_rawgeti(L, -1, go->slot);
  Roots *a = &S->roots;
  if (LIKELY(a->nrecent < ROOTS_RECENT)) {
    a->recent[a->nrecent++] = go->slot;
    lua_pushboolean(L, 1);
  } else {
    lua_pushinteger(L, link_to_free(a));
    a->free = go->slot;
  }
  lua_rawseti(L, -3, go->slot);
  a->strong--;
  go->slot = 0;
}

/* Pushes the channel of a waiter, from its owner's stack. */
static void push_channel(lua_State *L, const Waiter *w) {
  lua_State *co = w->alt->co;
  lua_pushvalue(co, w->at);
  lua_xmove(co, L, 1);
}

/* Makes the channels let go of a weak root, whose userdata is at index `at`. They are not looked for on its stack, which
   is empty if somebody closes the coroutine. */
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
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_rawgeti(L, -1, go->slot);
  if (LIKELY(lua_touserdata(L, -1) == go)) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
    lua_insert(L, -2);
    lua_rawseti(L, -2, go->slot); /* an existing key: allocates nothing, as everywhere here */
    lua_pushnil(L);
    lua_rawseti(L, -3, go->slot);
    S->roots.strong++;
    S->roots.weak--;
  } else {
    take_slot(L, &S->roots, go, at);
  }
  lua_pop(L, 2);
  release(L, go, at);
  go->alt.flags &= (uint8_t)~ALT_WEAK;
}

/* Pushes the userdata of a weak root. */
static void push_weak(lua_State *L, const Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_rawgeti(L, -1, go->slot);
  lua_replace(L, -2);
  if (LIKELY(lua_touserdata(L, -1) == go)) return;
  lua_pop(L, 1);
  /* The weak reference has been cleared (see root.h); but each of its channels still has it. */
  int top = lua_gettop(L);
  push_channel(L, alt_waiters(&go->alt));
  attr_push_table(L, top + 1);
  lua_pushnil(L);
  while (lua_next(L, top + 2)) {
    lua_pop(L, 1);
    if (lua_touserdata(L, -1) == go) break;
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void root_promote(lua_State *L, Sched *S, Go *go) {
  push_weak(L, go);
  root_make_strong(L, S, go, lua_gettop(L));
  lua_pop(L, 1);
}

/* Whether a strong root waits on channels only: if nobody can reach them, nothing will ever wake it. */
static bool may_be_abandoned(const Go *go) {
  const Alt *alt = &go->alt;
  if (alt->flags & ALT_WEAK) return false;
  if (alt->state == ALT_NEW) return true;
  if (alt->state != ALT_PARKED || alt->count == 0 || !alt_is_active(alt)) return false;
  const Others *others = go->chan.sched->others;
  if (UNLIKELY(alt->shared) && others->is_open(alt)) return false; /* another state may wake it */
  for (uint32_t i = 0; i < alt->count; i++) {
    const Chan *ch = alt_waiters(alt)[i].chan;
    if (LIKELY(!(ch->flags & (CHAN_TIMEOUT | CHAN_DONE_SHARED)))) continue;
    if (ch->flags & CHAN_TIMEOUT || others->may_close(ch)) return false; /* the timer, or another state */
  }
  return true;
}

/* Makes the tables of attributes in which the channels of a parked go block will hold it. */
static void make_tables(lua_State *L, const Alt *alt) {
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt_waiters(alt)[i]);
    attr_table(L, lua_gettop(L));
    lua_pop(L, 2);
  }
}

/* Whether all of its channels have one. */
static bool have_tables(lua_State *L, const Alt *alt) {
  bool have = true;
  for (uint32_t i = 0; i < alt->count && have; i++) {
    push_channel(L, &alt_waiters(alt)[i]);
    have = attr_push_table(L, lua_gettop(L));
    lua_pop(L, 2);
  }
  return have;
}

/* The size of the table that keeps alive what a parked alts waits on; 0 for a single operation. */
static uint32_t size_of_waits(const Alt *alt) { return alt->flags & ALT_SELECT ? alt->count + 1 : 0; }

/* Puts the channels and the block of waiters of an alts into the table on top of the stack, which has room for them. */
static void fill_waits(lua_State *L, const Alt *alt) {
  lua_pushvalue(alt->co, ALT_BLOCK);
  lua_xmove(alt->co, L, 1);
  lua_rawseti(L, -2, alt->count + 1);
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt_waiters(alt)[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Demotes the strong root on top of the stack. Its channels hold it, and its coroutine. May raise half way: that some
   channels hold it already does no harm. */
static void demote(lua_State *L, Sched *S, Go *go, int strong, int weak) {
  Alt *alt = &go->alt;
  int at = lua_gettop(L);
  make_tables(L, alt);
  keep_before_weak(L, &go->chan, at);
  uint32_t size = size_of_waits(alt);
  if (size) lua_createtable(L, (int)size, 0);
  /* That has allocated: a finalizer may have woken the go block, which may even have run and parked elsewhere. */
  if (!may_be_abandoned(go) || !have_tables(L, alt) || size_of_waits(alt) > size || !keep_when_weak(&go->chan)) {
    lua_settop(L, at); /* seldom covered: a finalizer ran at this very allocation */
    return;
  }
  if (size_of_waits(alt)) fill_waits(L, alt);
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt_waiters(alt)[i]);
    attr_push_table(L, lua_gettop(L));
    lua_pushvalue(L, at);
    lua_getiuservalue(L, at, GO_COROUTINE);
    lua_rawset(L, -3);
    lua_pop(L, size_of_waits(alt) ? 2 : 1);
  }
  if (alt->count) lua_setiuservalue(L, at, GO_WAITS); /* the table, or the one channel: instead of the coroutine */
  lua_settop(L, at);
  lua_pushvalue(L, at);
  lua_rawseti(L, weak, go->slot);
  lua_pushboolean(L, 0);
  lua_rawseti(L, strong, go->slot);
  alt->flags |= ALT_WEAK;
  if (size_of_waits(alt)) alt_waiters(alt)->is_weak = true;
  S->roots.strong--;
  S->roots.weak++;
}

/* Whether a go block was parked in the same operation at an earlier visit. */
static bool was_seen(const Go *go) {
  if (go->alt.count == 0) return true; /* a pending callback */
  Waiter *first = alt_waiters(&go->alt);
  bool was = first->flags & WAITER_SEEN;
  first->flags |= WAITER_SEEN;
  return was;
}

/* Visits a slot: see above. May raise for lack of memory. */
static void visit(lua_State *L, Sched *S, uint32_t slot, int strong, int weak) {
  Roots *a = &S->roots;
  int type = lua_rawgeti(L, strong, slot);
  if (type == LUA_TUSERDATA) {
    Go *go = (Go *)lua_touserdata(L, -1);
    if (may_be_abandoned(go) && (was_seen(go) || !a->is_cycle)) demote(L, S, go, strong, weak);
    lua_pop(L, 1);
    return;
  }
  bool is_free = type == LUA_TNUMBER && (lua_tointeger(L, -1) & 1) != a->lap;
  if (type == LUA_TBOOLEAN && !lua_toboolean(L, -1)) {
    is_free = lua_rawgeti(L, weak, slot) == LUA_TNIL;
    lua_pop(L, 1);
    if (is_free) a->weak--;
  }
  lua_pop(L, 1);
  if (!is_free) return;
  if (slot == a->size) {
    lua_pushnil(L);
    a->size--;
  } else {
    lua_pushinteger(L, link_to_free(a));
    a->free = slot;
  }
  lua_rawseti(L, strong, slot);
}

/* Begins a lap. */
static void begin_lap(lua_State *L, Roots *a, int strong) {
  while (a->nrecent) {
    lua_pushinteger(L, a->lap);
    lua_rawseti(L, strong, a->recent[--a->nrecent]);
  }
  a->next = a->size;
  a->lap ^= 1;
  a->free = 0;
  root_note_lap(&a->use, a->strong + a->weak);
}

/* Protected: (how many slots to visit, of each at most once). */
static int sweep_protected(lua_State *L) {
  Sched *S = sched_self(L);
  Roots *a = &S->roots;
  lua_Integer n = lua_tointeger(L, 1);
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  if (a->size == 0) begin_lap(L, a, 2);
  for (n = n < a->size ? n : a->size; n > 0; n--) {
    if (a->next == 0) begin_lap(L, a, 2);
    visit(L, S, a->next--, 2, 3);
  }
  return 0;
}

/* Sweeps the next `n` slots; `is_cycle`: once in a cycle of the collector. If memory runs out, the rest stays as it was.
   Does not raise. */
static void sweep(lua_State *L, Sched *S, uint32_t n, bool is_cycle) {
  Roots *a = &S->roots;
  if (a->sweeping) return; /* a sweep allocates, and so may run a finalizer that comes here */
  a->sweeping = true;
  a->is_cycle = is_cycle;
  root_note_use(&a->use, a->strong + a->weak);
  lua_getiuservalue(L, SCHED_SELF, SCHED_SWEEP);
  lua_pushinteger(L, n);
  a->failed = lua_pcall(L, 1, 0, 0) != LUA_OK;
  if (a->failed) lua_pop(L, 1);
  a->sweeping = false;
  keep_trim(L, S, n); /* what weak roots wait on is not needed in the list any more */
  uint32_t limit = idle(S) + CHUNK_EVERY;
  a->limit = limit > IDLE_AT_LEAST ? limit : IDLE_AT_LEAST;
}

void root_add(lua_State *L, Sched *S, Go *go, int at) {
  if (UNLIKELY(idle(S) >= S->roots.limit)) sweep(L, S, CHUNK, false);
  take_slot(L, &S->roots, go, at);
}

void root_push_slot(lua_State *L, uint32_t slot) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  int type = lua_rawgeti(L, -1, slot);
  if (type == LUA_TBOOLEAN) {
    lua_pop(L, 2);
    lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
    type = lua_rawgeti(L, -1, slot);
  }
  lua_replace(L, -2);
  if (type != LUA_TUSERDATA) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
}

/* ---- the sentinel ----

   A userdata that nobody refers to: its finalizer runs once a cycle, sweeps, and makes the next one. SCHED_WEAK refers
   to the sentinel weakly.

   When memory is short, an allocation ends in a full collection. If that found the next sentinel dead, its finalizer
   would be called in the same collection, and so on: the collection would never end. So the finalizer holds the next
   sentinel while it allocates; and once an allocation has failed, it makes none and does nothing until the scheduler
   has run. root_watch makes one then, and also if the finalizer could not be called at all. */

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
  Roots *a = &S->roots;
  lua_settop(L, 1);
  if (a->failed) return 0;
  lua_getiuservalue(L, SCHED_SELF, SCHED_SENTINEL);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
    a->failed = true;
    return 0;
  }
  uint32_t share = a->size / CYCLE_SHARE;
  sweep(L, S, share > CYCLE_LEAST ? share : CYCLE_LEAST, true);
  keep_trim_cycle(L, S);
  return 0;
}

void root_watch(lua_State *L, Sched *S) {
  S->roots.failed = false;
  root_shrink(L, S);
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  bool is_there = lua_rawgeti(L, -1, ROOT_SENTINEL) != LUA_TNIL;
  lua_pop(L, 2);
  if (LIKELY(is_there)) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_SENTINEL);
  lua_pcall(L, 0, 1, 0);
  lua_pop(L, 1); /* the sentinel, or that there is no memory for one yet */
}

void root_open(lua_State *L) {
  Sched *S = sched_self(L);
  S->roots.limit = IDLE_AT_LEAST;
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_STRONG);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, sweep_protected, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_SWEEP);
  lua_pushvalue(L, SCHED_SELF);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, on_cycle, 1);
  lua_setfield(L, -2, "__gc");
  lua_pushcclosure(L, make_sentinel, 2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_SENTINEL);
  root_shrink_open(L);
  root_watch(L, S);
}
