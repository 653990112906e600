/* anchor.c: see anchor.h.

   A slot of SCHED_ANCHORS holds
     the userdata of a go block that the scheduler holds;
     false for one that was handed over: SCHED_AWAY has it, weakly, until it is collected;
     a number where the slot is free: twice the next free slot, plus the parity of the lap that linked it.

   A lap visits every slot once, from the last to the first, a few at a time. It hands over what waits on channels, and links
   the free slots anew, so that the lowest are used first and those at the end are forgotten. When a lap begins, the list of
   free slots is empty: what the lap before has linked, which its parity tells, is not in the list any more. */
#include "core/anchor.h"

#include <lauxlib.h>

#include "core/keep.h"

enum {
  CHUNK = 512,          /* slots that are visited at a time, which takes 0.2 ms where all are handed over */
  CHUNK_EVERY = 128,    /* a chunk for so many more idle blocks */
  IDLE_AT_LEAST = 1024, /* with fewer of them only the collector's cycle visits slots */
  CYCLE_SHARE = 8,      /* a cycle of the collector visits one slot in so many */
  CYCLE_LEAST = 16384   /* and so many at least: with fewer slots, what is abandoned is collected in the next cycle */
};

/* How many go blocks are held that may be parked: those in the run queue are not. */
static uint32_t idle(const Sched *S) {
  return S->anchors.held > S->world.nready ? S->anchors.held - S->world.nready : 0;
}

/* What a free slot holds that is put in front of the list. */
static lua_Integer link_to_free(const Anchors *a) { return (lua_Integer)a->free << 1 | a->lap; }

/* Gives a block, whose userdata is at index `at`, a slot. May raise. */
static void take_slot(lua_State *L, Anchors *a, Go *go, int at) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  uint32_t slot = a->free;
  if (slot) {
    lua_rawgeti(L, -1, slot);
    uint32_t next = (uint32_t)(lua_tointeger(L, -1) >> 1);
    lua_pop(L, 1);
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, slot);
    a->free = next;
  } else {
    lua_Integer last = (lua_Integer)a->size + 1;
    lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
    lua_pushboolean(L, 0); /* makes room, in order: laps go backwards, and would make it a hash table */
    lua_rawseti(L, -2, last);
    lua_pop(L, 1);
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, last); /* may raise, as before: nothing has changed */
    slot = ++a->size;
  }
  go->chan.slot = slot;
  a->held++;
  lua_pop(L, 1);
}

void anchor_push(lua_State *L, const Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_rawgeti(L, -1, go->chan.slot);
  lua_replace(L, -2);
}

void anchor_pop(lua_State *L, Sched *S, Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_rawgeti(L, -1, go->chan.slot);
  lua_pushinteger(L, link_to_free(&S->anchors));
  lua_rawseti(L, -3, go->chan.slot);
  lua_replace(L, -2);
  S->anchors.free = go->chan.slot;
  S->anchors.held--;
  go->chan.slot = 0;
}

/* Pushes the channel of a waiter, from its owner's stack. */
static void push_channel(lua_State *L, const Waiter *w) {
  lua_State *co = w->alt->co;
  lua_pushvalue(co, w->at);
  lua_xmove(co, L, 1);
}

void anchor_reclaim(lua_State *L, Sched *S, Go *go, int at) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  lua_rawgeti(L, -1, go->chan.slot);
  if (LIKELY(lua_touserdata(L, -1) == go)) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
    lua_insert(L, -2);
    lua_rawseti(L, -2, go->chan.slot); /* an existing key: allocates nothing, as everywhere here */
    lua_pushnil(L);
    lua_rawseti(L, -3, go->chan.slot);
    S->anchors.held++;
  } else {
    take_slot(L, &S->anchors, go, at);
  }
  lua_pop(L, 2);
  go->alt.flags &= (uint8_t)~ALT_AWAY;
}

/* Pushes the userdata of a block that was handed over. */
static void push_away(lua_State *L, const Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  lua_rawgeti(L, -1, go->chan.slot);
  lua_replace(L, -2);
  if (LIKELY(lua_touserdata(L, -1) == go)) return;
  lua_pop(L, 1);
  /* It has lost its slot; but each of its channels still holds it. */
  int top = lua_gettop(L);
  push_channel(L, &go->alt.waiters[0]);
  chan_has_extras(L, top + 1);
  lua_pushnil(L);
  while (lua_next(L, top + 2)) {
    lua_pop(L, 1);
    if (lua_touserdata(L, -1) == go) break;
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void anchor_bring_back(lua_State *L, Sched *S, Go *go) {
  push_away(L, go);
  anchor_reclaim(L, S, go, lua_gettop(L));
  for (uint32_t i = 0; i < go->alt.count; i++) {
    push_channel(L, &go->alt.waiters[i]);
    chan_has_extras(L, lua_gettop(L)); /* it has: they hold the block */
    lua_pushvalue(L, -3);
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 2);
  }
  lua_pushnil(L);
  lua_setiuservalue(L, -2, GO_WAITS);
  lua_pop(L, 1);
}

/* Whether a held block waits on channels that, if nobody can reach them, nothing will ever complete. */
static bool may_be_abandoned(const Go *go) {
  const Alt *alt = &go->alt;
  if (alt->flags & ALT_AWAY) return false;
  if (alt->state == ALT_NEW) return true;
  if (alt->state != ALT_PARKED || alt->count == 0 || !chan_is_active(alt)) return false;
  for (uint32_t i = 0; i < alt->count; i++) {
    if (alt->waiters[i].chan->flags & CHAN_TIMEOUT) return false; /* the timer will wake it */
  }
  return true;
}

/* Makes the tables in which the channels of a parked block will hold it. */
static void make_extras(lua_State *L, const Alt *alt) {
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt->waiters[i]);
    chan_extras(L, lua_gettop(L));
    lua_pop(L, 2);
  }
}

/* Whether they are all there. */
static bool have_extras(lua_State *L, const Alt *alt) {
  bool have = true;
  for (uint32_t i = 0; i < alt->count && have; i++) {
    push_channel(L, &alt->waiters[i]);
    have = chan_has_extras(L, lua_gettop(L));
    lua_pop(L, 2);
  }
  return have;
}

/* How many elements the table has that keeps alive what a parked alts waits on; 0 for a single operation. */
static uint32_t size_of_waits(const Alt *alt) { return alt->flags & ALT_SELECT ? alt->count + 1 : 0; }

/* Puts the channels and the block of waiters of an alts into the table on top of the stack, which has room for them. */
static void fill_waits(lua_State *L, const Alt *alt) {
  lua_pushvalue(alt->co, CHAN_FIRST_OP - 1);
  lua_xmove(alt->co, L, 1);
  lua_rawseti(L, -2, alt->count + 1);
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt->waiters[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Hands the block on top of the stack over. May raise, half way: what the channels then hold in vain does no harm. */
static void hand_over(lua_State *L, Sched *S, Go *go, int anchors, int away) {
  Alt *alt = &go->alt;
  int at = lua_gettop(L);
  make_extras(L, alt);
  uint32_t size = size_of_waits(alt);
  if (size) lua_createtable(L, (int)size, 0);
  /* That has allocated, and so a finalizer may have woken the block, or even had it run and park elsewhere. */
  if (!may_be_abandoned(go) || !have_extras(L, alt) || size_of_waits(alt) > size) {
    lua_settop(L, at);
    return;
  }
  if (size_of_waits(alt)) fill_waits(L, alt);
  for (uint32_t i = 0; i < alt->count; i++) {
    push_channel(L, &alt->waiters[i]);
    chan_has_extras(L, lua_gettop(L));
    lua_pushvalue(L, at);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, size_of_waits(alt) ? 2 : 1);
  }
  if (alt->count) lua_setiuservalue(L, at, GO_WAITS); /* the table, or the one channel */
  lua_settop(L, at);
  lua_pushvalue(L, at);
  lua_rawseti(L, away, go->chan.slot);
  lua_pushboolean(L, 0);
  lua_rawseti(L, anchors, go->chan.slot);
  alt->flags |= ALT_AWAY;
  if (size_of_waits(alt)) alt->waiters->is_away = true;
  S->anchors.held--;
}

/* Visits a slot: see above. May raise out of memory. */
static void visit(lua_State *L, Sched *S, uint32_t slot, int anchors, int away) {
  Anchors *a = &S->anchors;
  int type = lua_rawgeti(L, anchors, slot);
  if (type == LUA_TUSERDATA) {
    Go *go = (Go *)lua_touserdata(L, -1);
    if (may_be_abandoned(go)) hand_over(L, S, go, anchors, away);
    lua_pop(L, 1);
    return;
  }
  bool is_free = type == LUA_TNUMBER && (lua_tointeger(L, -1) & 1) != a->lap;
  if (type == LUA_TBOOLEAN) {
    is_free = lua_rawgeti(L, away, slot) == LUA_TNIL;
    lua_pop(L, 1);
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
  lua_rawseti(L, anchors, slot);
}

/* Protected: (how many slots to visit, of each at most once). */
static int visit_some(lua_State *L) {
  Sched *S = sched_self(L);
  Anchors *a = &S->anchors;
  lua_Integer n = lua_tointeger(L, 1);
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  for (n = n < a->size ? n : a->size; n > 0; n--) {
    if (a->next == 0) {
      a->next = a->size;
      a->lap ^= 1;
      a->free = 0;
    }
    visit(L, S, a->next--, 2, 3);
  }
  return 0;
}

/* Goes on with the lap by `n` slots. Where memory runs out the rest stays as it was. Does not raise. */
static void go_on(lua_State *L, Sched *S, uint32_t n) {
  Anchors *a = &S->anchors;
  if (a->visiting) return; /* it allocates: this is a finalizer within it */
  a->visiting = true;
  lua_getiuservalue(L, SCHED_SELF, SCHED_VISIT);
  lua_pushinteger(L, n);
  a->failed = lua_pcall(L, 1, 0, 0) != LUA_OK;
  if (a->failed) lua_pop(L, 1);
  a->visiting = false;
  keep_trim(L, S, n); /* what the blocks that were handed over wait on is not needed in the list any more */
  uint32_t limit = idle(S) + CHUNK_EVERY;
  a->limit = limit > IDLE_AT_LEAST ? limit : IDLE_AT_LEAST;
}

void anchor_hold(lua_State *L, Sched *S, Go *go, int at) {
  if (UNLIKELY(idle(S) >= S->anchors.limit)) go_on(L, S, CHUNK);
  take_slot(L, &S->anchors, go, at);
}

void anchor_push_slot(lua_State *L, uint32_t slot) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  int type = lua_rawgeti(L, -1, slot);
  if (type == LUA_TBOOLEAN) {
    lua_pop(L, 2);
    lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
    type = lua_rawgeti(L, -1, slot);
  }
  lua_replace(L, -2);
  if (type != LUA_TUSERDATA) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
}

/* ---- the sentinel ----

   A userdata that nobody holds: its finalizer runs once a cycle and makes the next one. SCHED_AWAY has the sentinel, weakly.

   Where memory is short an allocation ends in a full collection. If that finds the next sentinel dead, its finalizer is
   called in the same collection, and so on: the collection would never end. So the finalizer holds the next sentinel while it
   allocates; and once an allocation has failed, it makes none and does nothing, until the scheduler has run. anchor_tend makes
   one then, and also where the finalizer could not be called at all. */

enum { SENTINEL = 0 };

/* Protected: makes the sentinel, if there is none, and returns it. Its metatable is the second upvalue. */
static int make_sentinel(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  if (lua_rawgeti(L, 1, SENTINEL) == LUA_TNIL) {
    lua_newuserdatauv(L, 0, 0);
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawseti(L, 1, SENTINEL);
  }
  return 1;
}

/* __gc of the sentinel. */
static int on_cycle(lua_State *L) {
  Sched *S = sched_self(L);
  Anchors *a = &S->anchors;
  lua_settop(L, 1);
  if (a->failed) return 0;
  lua_getiuservalue(L, SCHED_SELF, SCHED_WATCH);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
    a->failed = true;
    return 0;
  }
  uint32_t share = a->size / CYCLE_SHARE;
  go_on(L, S, share > CYCLE_LEAST ? share : CYCLE_LEAST);
  keep_tend(L, S);
  return 0;
}

void anchor_tend(lua_State *L, Sched *S) {
  S->anchors.failed = false;
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  bool is_there = lua_rawgeti(L, -1, SENTINEL) != LUA_TNIL;
  lua_pop(L, 2);
  if (LIKELY(is_there)) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_WATCH);
  lua_pcall(L, 0, 1, 0);
  lua_pop(L, 1); /* the sentinel, or that there is no memory for one yet */
}

void anchor_open(lua_State *L) {
  Sched *S = sched_self(L);
  S->anchors.limit = IDLE_AT_LEAST;
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_AWAY);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, visit_some, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_VISIT);
  lua_pushvalue(L, SCHED_SELF);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, on_cycle, 1);
  lua_setfield(L, -2, "__gc");
  lua_pushcclosure(L, make_sentinel, 2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_WATCH);
  anchor_tend(L, S);
}
