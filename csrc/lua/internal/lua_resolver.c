/* lua_resolver.c: core.internal's function for the addresses of hosts (port/resolver.h), which runnel.uv uses. */
#include "port/resolver.h"

#include "base/loaded.h"
#include "lua/check.h"
#include "lua/module.h"
#include "port/pump.h"

#define RESOLVER_META "runnel.resolver"

/* The resolver of the state, which is made at the first use. */
static Resolver *resolver_of(lua_State *L) {
  luaL_getmetatable(L, RESOLVER_META);
  if (lua_getfield(L, -1, "resolver") == LUA_TNIL) {
    Resolver **place = (Resolver **)lua_newuserdatauv(L, sizeof(Resolver *), 0);
    *place = NULL;
    luaL_setmetatable(L, RESOLVER_META);
    *place = resolver_new();
    if (!*place) luaL_error(L, "not enough memory");
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, "resolver");
  }
  return *(Resolver **)lua_touserdata(L, -1);
}

/* resolve(ch, host) -> whether it has begun: puts a text on the channel, and closes it. The text has a line for each
   address, or the name of an error, a space, and what it means. */
static int internal_resolve(lua_State *L) {
  check_chan(L, 1, "resolve", "resolve(ch, host)");
  const char *host = luaL_checkstring(L, 2);
  if (!stay_loaded()) return 0; /* a thread may wait for the system when the state is closed */
  Resolver *resolver = resolver_of(L);
  if (!resolver) return 0; /* a finalizer, while the state closes */
  Port *port = pump_open(L, sched_self(L), 1, 1, PUMP_CLOSES);
  if (!port) return luaL_error(L, "not enough memory");
  bool ok = resolver_look_up(resolver, host, port);
  if (!ok) {
    port_close(port); /* uncovered: only when resources run out */
    port_release(port);
  }
  lua_pushboolean(L, ok);
  return 1;
}

/* __gc */
static int resolver_gc(lua_State *L) {
  Resolver **place = (Resolver **)luaL_checkudata(L, 1, RESOLVER_META);
  if (*place) resolver_close(*place);
  *place = NULL;
  return 0;
}

void lua_resolver_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"resolve", internal_resolve}, {NULL, NULL}};
  module_register(L, functions);
  luaL_newmetatable(L, RESOLVER_META);
  lua_pushcfunction(L, resolver_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
