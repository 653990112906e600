/* preload.c: see preload.h. */
#include "lua/state/preload.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

/* Replaces the loader on top of the stack, of luv or of the driver for luv: the executable's belong to its one state.
   Their upvalue is the module's own loader, which a thread gets; or nil, if luv is not in the executable. */
static void unwrap(lua_State *L) {
  if (!lua_getupvalue(L, -1, 1)) return;
  if (lua_islightuserdata(L, -1)) lua_pop(L, 1); /* it is the module's own */
  else lua_replace(L, -2);
}

bool preload_copy(lua_State *L, Preload **first) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  bool ok = true;
  for (lua_pushnil(L); ok && lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_iscfunction(L, -1)) continue;
    const char *name = lua_tostring(L, -2);
    if (strcmp(name, "luv") == 0 || strcmp(name, "runnel.driver.luv") == 0) unwrap(L);
    if (!lua_iscfunction(L, -1)) continue;
    void *data = NULL;
    bool plain = lua_getupvalue(L, -1, 1) == NULL;
    if (!plain) {
      data = lua_islightuserdata(L, -1) ? lua_touserdata(L, -1) : NULL;
      lua_pop(L, 1);
      bool more = lua_getupvalue(L, -1, 2) != NULL;
      if (more) lua_pop(L, 1);
      if (!data || more) continue;
    }
    Preload *p = (Preload *)malloc(sizeof *p + strlen(name) + 1);
    ok = p != NULL;
    if (!p) break;
    p->loader = lua_tocfunction(L, -1);
    p->data = data;
    memcpy(p->name, name, strlen(name) + 1);
    p->next = *first;
    *first = p;
  }
  if (!ok) lua_pop(L, 2);
  lua_pop(L, 1);
  return ok;
}

void preload_set(lua_State *L, const Preload *first) {
  for (const Preload *p = first; p; p = p->next) {
    if (p->data) lua_pushlightuserdata(L, p->data);
    lua_pushcclosure(L, p->loader, p->data != NULL);
    lua_setfield(L, -2, p->name);
  }
}

void preload_free(Preload *first) {
  while (first) {
    Preload *next = first->next;
    free(first);
    first = next;
  }
}
