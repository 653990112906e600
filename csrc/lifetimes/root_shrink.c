/* root_shrink.c: see root_shrink.h. */
#include "lifetimes/root_shrink.h"

/* The room of a new table for so many entries. */
static uint32_t room_for(uint32_t used) { return 2 * used + ROOT_SHRINK_LEAST / 4; }

/* Moves the go block of a slot, strong or weak, to the end of the new tables; the old tables are at `strong` and
   `weak`, the new ones at strong + 1 and weak + 1. Allocates nothing: there is room. */
static void move(lua_State *L, Roots *a, uint32_t from, int strong, int weak, uint32_t *count) {
  int type = lua_rawgeti(L, strong, from);
  bool is_weak = type == LUA_TBOOLEAN && !lua_toboolean(L, -1) && lua_rawgeti(L, weak, from) == LUA_TUSERDATA;
  if (type == LUA_TUSERDATA || is_weak) {
    ((Go *)lua_touserdata(L, -1))->slot = ++*count;
    lua_rawseti(L, is_weak ? weak + 1 : strong + 1, *count);
    if (is_weak) lua_rawseti(L, strong + 1, *count); /* false, which is on top now */
    a->weak += is_weak;
  }
  lua_settop(L, weak + 1);
}

/* Moves the go blocks to tables of their number. May raise, and then nothing has changed. */
static void shrink_slots(lua_State *L, Roots *a) {
  int strong = lua_gettop(L) + 1, weak = strong + 2;
  uint32_t room = room_for(a->strong + a->weak);
  lua_getiuservalue(L, SCHED_SELF, SCHED_STRONG);
  lua_createtable(L, (int)room, 0);
  lua_getiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_createtable(L, (int)room, 1);
  if (a->strong + a->weak > room) return; /* seldom covered: finalizers ran, and started many go blocks */
  lua_getmetatable(L, weak);
  lua_setmetatable(L, weak + 1);
  lua_rawgeti(L, weak, ROOT_SENTINEL);
  lua_rawseti(L, weak + 1, ROOT_SENTINEL);
  uint32_t count = 0;
  a->weak = 0;
  for (uint32_t slot = 1; slot <= a->size; slot++) move(L, a, slot, strong, weak, &count);
  lua_setiuservalue(L, SCHED_SELF, SCHED_WEAK);
  lua_pop(L, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_STRONG);
  a->size = count;
  a->use.room = room;
  a->nrecent = a->free = a->next = 0; /* no slot is free, and a new lap begins */
  a->moves++;
}

/* The same for the list of what go blocks wait on. */
static void shrink_list(lua_State *L, Kept *k) {
  int old = lua_gettop(L) + 1;
  uint32_t room = room_for(k->size);
  lua_getiuservalue(L, SCHED_SELF, SCHED_KEPT);
  lua_createtable(L, (int)room, 0);
  if (k->size > room) return; /* seldom covered: finalizers ran, and parked many go blocks */
  for (uint32_t i = 1; i <= k->size; i++) {
    lua_rawgeti(L, old, i);
    lua_rawseti(L, old + 1, i);
  }
  lua_setiuservalue(L, SCHED_SELF, SCHED_KEPT);
  k->use.room = room;
}

/* Protected. */
static int shrink_protected(lua_State *L) {
  Sched *S = sched_self(L);
  Roots *a = &S->roots;
  Kept *k = &S->kept;
  if (a->use.sparse && root_has_too_much_room(&a->use, a->strong + a->weak)) shrink_slots(L, a);
  lua_settop(L, 0);
  if (k->use.sparse && root_has_too_much_room(&k->use, k->size)) shrink_list(L, k);
  return 0;
}

void root_shrink_now(lua_State *L, Sched *S) {
  Roots *a = &S->roots;
  if (a->sweeping) return; /* an allocation may run a finalizer that runs the loop */
  a->sweeping = true;
  lua_getiuservalue(L, SCHED_SELF, SCHED_SHRINK);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  a->sweeping = false;
  a->use.sparse = S->kept.use.sparse = false; /* if there was no memory, it is tried again after another lap */
}

void root_shrink_open(lua_State *L) {
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, shrink_protected, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_SHRINK);
}
