/* inspect.c: see inspect.h. */
#include "errors/inspect.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

#include "errors/error.h"

lua_Integer inspect_push_channels(lua_State *L, const Alt *alt) {
  lua_Integer n = 0;
  lua_createtable(L, (int)alt->count, 0);
  for (uint32_t i = 0; i < alt->count; i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    if (chan_is_hidden(w->chan)) continue;
    alt_push_channel(L, w);
    lua_rawseti(L, -2, ++n);
  }
  return n;
}

void inspect_set_operation(lua_State *L, const Alt *alt) {
  const Waiter *first = alt_waiters(alt);
  const char *what = first->is_put ? "put" : "take";
  if (alt->flags & ALT_SELECT) {
    what = inspect_push_channels(L, alt) ? "alts" : "idle";
    lua_setfield(L, -2, "channels");
  } else if (chan_is_hidden(first->chan)) {
    what = "idle";
  } else {
    alt_push_channel(L, first); /* first, since an allocation may run a finalizer that ends the go block */
    lua_setfield(L, -2, "channel");
  }
  lua_pushstring(L, what);
  lua_setfield(L, -2, "operation");
}

/* Protected: (alt, name of the operation) -> what inspect_push_waiting pushes. */
static int describe_waiting(lua_State *L) {
  const Alt *alt = (const Alt *)lua_touserdata(L, 1);
  const char *what = (const char *)lua_touserdata(L, 2);
  lua_createtable(L, 0, 4);
  if (alt->flags & ALT_SELECT || strcmp(what, "take") == 0 || strcmp(what, "put") == 0) inspect_set_operation(L, alt);
  lua_pushboolean(L, alt->flags & ALT_LOOP);
  lua_setfield(L, -2, "loops");
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

bool inspect_write_report(lua_State *L, const char *name, int n) {
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
  lua_pushstring(L, what);
  lua_pushboolean(L, S->is_stuck);
  if (!inspect_write_report(L, "deadlock", 3)) lua_pushfstring(L, "deadlock: %s would wait for ever", what);
  return error_raise(L);
}
