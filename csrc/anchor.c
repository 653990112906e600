/* anchor.c: see anchor.h.

   A slot of SCHED_ANCHORS holds the userdata of a held go block, false for one that was handed over (SCHED_AWAY then has
   it, weakly), or, when free, the number of the next free slot. */
#include "anchor.h"

#include <lauxlib.h>

#include "keep.h"

enum { HAND_OVER_AT_LEAST = 1024 };

/* How many go blocks are held that may be parked: those in the run queue are not. */
static uint32_t idle(const Sched *S) {
  return S->anchors.held > S->world.nready ? S->anchors.held - S->world.nready : 0;
}

static void set_limit(Sched *S) {
  uint32_t more = S->anchors.size / 4;
  S->anchors.limit = idle(S) + (more > HAND_OVER_AT_LEAST ? more : HAND_OVER_AT_LEAST);
}

/* Gives a block, whose userdata is at index `at`, a slot. May raise. */
static void take_slot(lua_State *L, Anchors *a, Go *go, int at) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  uint32_t slot = a->free;
  if (slot) {
    lua_rawgeti(L, -1, slot);
    uint32_t next = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, slot);
    a->free = next;
  } else {
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, (lua_Integer)a->size + 1); /* may raise: nothing has changed */
    slot = ++a->size;
  }
  go->chan.slot = slot;
  a->held++;
  lua_pop(L, 1);
}

void anchor_hold(lua_State *L, Sched *S, Go *go, int at) {
  if (idle(S) >= S->anchors.limit) {
    anchor_watch(L);
    anchor_hand_over(L);
  }
  take_slot(L, &S->anchors, go, at);
}

void anchor_push(lua_State *L, const Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_rawgeti(L, -1, go->chan.slot);
  lua_replace(L, -2);
}

void anchor_pop(lua_State *L, Sched *S, Go *go) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_rawgeti(L, -1, go->chan.slot);
  lua_pushinteger(L, S->anchors.free);
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
  S->anchors.held--;
}

/* Hands over, slot by slot; may raise out of memory. */
static int hand_over_all(lua_State *L) {
  Sched *S = sched_self(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  int anchors = lua_gettop(L) - 1, away = anchors + 1;
  for (uint32_t slot = 1; slot <= S->anchors.size; slot++) {
    if (lua_rawgeti(L, anchors, slot) == LUA_TUSERDATA) {
      Go *go = (Go *)lua_touserdata(L, -1);
      if (may_be_abandoned(go)) hand_over(L, S, go, anchors, away);
    }
    lua_pop(L, 1);
  }
  return 0;
}

/* Links the free slots anew, lowest first, those of collected blocks among them, and forgets the free ones at the end. */
static void sweep_slots(lua_State *L, Anchors *a) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  bool at_end = true;
  uint32_t size = a->size;
  a->free = 0;
  for (uint32_t slot = size; slot > 0; slot--) {
    int type = lua_rawgeti(L, -2, slot);
    lua_pop(L, 1);
    bool is_free = type == LUA_TNUMBER;
    if (type == LUA_TBOOLEAN) {
      is_free = lua_rawgeti(L, -1, slot) == LUA_TNIL;
      lua_pop(L, 1);
    }
    if (!is_free) {
      at_end = false;
    } else if (at_end) {
      lua_pushnil(L);
      lua_rawseti(L, -3, slot);
      a->size = slot - 1;
    } else {
      lua_pushinteger(L, a->free);
      lua_rawseti(L, -3, slot);
      a->free = slot;
    }
  }
  lua_pop(L, 2);
}

void anchor_hand_over(lua_State *L) {
  Sched *S = sched_self(L);
  Anchors *a = &S->anchors;
  if (a->passing) return; /* it allocates: this is the finalizer of the sentinel, within a pass */
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, hand_over_all, 1);
  a->passing = true;
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1); /* out of memory: the rest stays held */
  a->passing = false;
  keep_trim(S);
  sweep_slots(L, a);
  set_limit(S);
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

   A userdata that nobody holds: its finalizer runs once a cycle and makes the next one. Where the finalizer cannot run, on
   a stack that is full or without memory, the chain breaks; anchor_watch mends it. SCHED_AWAY has the sentinel, weakly. */

enum { SENTINEL = 0 };

static int on_cycle(lua_State *L) {
  lua_settop(L, 0);
  anchor_watch(L);
  anchor_hand_over(L);
  return 0;
}

void anchor_watch(lua_State *L) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_AWAY);
  int away = lua_gettop(L);
  if (lua_rawgeti(L, away, SENTINEL) == LUA_TNIL) {
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, SCHED_SELF);
    lua_pushcclosure(L, on_cycle, 1);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawseti(L, away, SENTINEL);
  }
  lua_settop(L, away - 1);
}

void anchor_open(lua_State *L) {
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_ANCHORS);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, SCHED_SELF, SCHED_AWAY);
  set_limit(sched_self(L));
  anchor_watch(L);
}
