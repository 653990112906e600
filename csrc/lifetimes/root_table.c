/* root_table.c: see root_table.h. SCHED_STRONG has the strong roots at 1 to Roots.strong, and SCHED_WEAK the weak roots
   at 1 to Roots.weak. A go block knows its index (Go.slot). When a root is removed, the last one takes its place. Lua
   clears the entries of collected weak roots, which count until a sweep removes them.

   SCHED_STRONG is filled with `false` up to Roots.room, which is at least the number of roots of both kinds: so a weak
   root becomes strong without an allocation. */
#include "lifetimes/root_table.h"

#include "core/setup.h"

/* Pushes a table of the scheduler and its entry `i`. Returns the entry's type. */
static int push_both(lua_State *L, int table, uint32_t i) {
  lua_getiuservalue(L, SCHED_SELF, table);
  return lua_rawgeti(L, -1, i);
}

void root_add_strong(lua_State *L, Sched *S, Go *go, int at) {
  Roots *r = &S->roots;
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  if (UNLIKELY(root_count(S) == r->room)) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, (lua_Integer)r->room + 1);
    r->room++;
  }
  lua_pushvalue(L, at);
  lua_rawseti(L, -2, ++r->strong); /* an existing key: allocates nothing */
  go->slot = r->strong;
  lua_pop(L, 1);
}

void root_push(lua_State *L, const Go *go) {
  push_both(L, SCHED_STRONG, go->slot);
  lua_replace(L, -2);
}

void root_remove(lua_State *L, Sched *S, Go *go) {
  push_both(L, SCHED_STRONG, go->slot);
  uint32_t last = S->roots.strong--;
  if (go->slot != last) {
    lua_rawgeti(L, -2, last);
    ((Go *)lua_touserdata(L, -1))->slot = go->slot;
    lua_rawseti(L, -3, go->slot);
  }
  lua_pushboolean(L, 0);
  lua_rawseti(L, -3, last);
  go->slot = 0;
}

void root_move_to_weak(lua_State *L, Sched *S, Go *go, int at) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_pushvalue(L, at);
  lua_rawseti(L, -2, (lua_Integer)S->roots.weak + 1); /* may allocate */
  root_remove(L, S, go);
  lua_pop(L, 3);
  go->slot = ++S->roots.weak;
}

bool root_push_weak(lua_State *L, const Go *go) {
  push_both(L, SCHED_WEAK, go->slot);
  lua_replace(L, -2);
  if (LIKELY(lua_touserdata(L, -1) == go)) return true;
  lua_pop(L, 1);
  return false;
}

void root_remove_weak(lua_State *L, Sched *S, uint32_t i) {
  uint32_t last = S->roots.weak;
  if (push_both(L, SCHED_WEAK, last) != LUA_TNIL) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, i); /* if entry `i` was cleared, Lua may have dropped its key, and allocates */
    ((Go *)lua_touserdata(L, -1))->slot = i;
    lua_pushnil(L);
    lua_rawseti(L, -3, last);
  } else if (i != last) {
    lua_pushnil(L);
    lua_rawseti(L, -3, i);
  }
  lua_pop(L, 2);
  S->roots.weak--;
}

/* ---- walks ---- */

Go *root_push_at(lua_State *L, uint32_t i) {
  const Roots *r = &sched_self(L)->roots;
  if (i <= r->strong) push_both(L, SCHED_STRONG, i);
  else push_both(L, SCHED_WEAK, i - r->strong);
  lua_replace(L, -2);
  return (Go *)lua_touserdata(L, -1);
}

uint32_t root_push_list(lua_State *L) {
  const Sched *S = sched_self(L);
  uint32_t room = root_count(S) + 1, n = 0;
  lua_createtable(L, (int)room, 0); /* may run finalizers */
  int list = lua_gettop(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_getmetatable(L, -1);
  lua_setmetatable(L, list);
  /* This allocates nothing, and reads no go block: so it is quick. */
  for (uint32_t i = 1; i <= root_count(S) && n < room; i++) {
    uint32_t strong = S->roots.strong;
    int type = i <= strong ? lua_rawgeti(L, list + 1, i) : lua_rawgeti(L, list + 2, i - strong);
    if (type == LUA_TUSERDATA) lua_rawseti(L, list, ++n);
    else lua_pop(L, 1);
  }
  lua_settop(L, list);
  return n;
}

Go *root_push_listed(lua_State *L, int list, uint32_t i) {
  lua_rawgeti(L, list, i);
  Go *go = (Go *)lua_touserdata(L, -1);
  return go && go->slot ? go : NULL;
}

/* ---- their size ---- */

void root_move_entries(lua_State *L, int from, int to, uint32_t n) {
  lua_getiuservalue(L, SCHED_SELF, from);
  for (uint32_t i = ROOT_SENTINEL; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, to, i);
  }
  if (lua_getmetatable(L, -1)) lua_setmetatable(L, to);
  lua_pop(L, 1);
  lua_pushvalue(L, to);
  lua_setiuservalue(L, SCHED_SELF, from);
}

void root_shrink(lua_State *L, Sched *S) {
  Roots *r = &S->roots;
  uint32_t room = root_room(root_count(S), r->room);
  if (room == r->room) return;
  int top = lua_gettop(L);
  lua_createtable(L, (int)room, 1);
  lua_createtable(L, (int)room, 1);
  if (root_count(S) <= room) { /* else a finalizer has started many go blocks */
    root_move_entries(L, SCHED_STRONG, top + 1, room);
    root_move_entries(L, SCHED_WEAK, top + 2, room);
    r->room = room;
  }
  lua_settop(L, top);
}

void root_table_open(lua_State *L) {
  setup_keep_table(L, SCHED_STRONG);
  setup_push_weak(L, "v");
  lua_setiuservalue(L, SCHED_SELF, SCHED_WEAK);
}
