/* hosts.c: the functions of core.internal for simulated worlds (runnel.sim.sim_world): which go blocks belong to which
   host, and how a host ends. */
#include "errors/name.h"
#include "lua/check.h"
#include "lua/module.h"
#include "sim/sim.h"

enum { HOST_MAX = (1 << 12) - 1 }; /* the highest number of a host: see Go.host */

/* host(n or nil, block or nil) -> the number of the host of the running go block, or of `block`; 0: it has none, or no
   go block runs. With n, that go block belongs to host n from now on, and what it starts. */
static int internal_host(lua_State *L) {
  Go *go = sched_self(L)->current;
  if (!lua_isnoneornil(L, 2)) go = chan_to_go(check_chan(L, 2, "host", "host(n, block)"));
  lua_Integer before = go ? go->host : 0;
  if (!lua_isnoneornil(L, 1) && go) {
    lua_Integer n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 0 && n <= HOST_MAX, 1, "too many hosts");
    go->host = (uint32_t)n & HOST_MAX;
  }
  lua_pushinteger(L, before);
  return 1;
}

/* hosts(list or nil): the names of hosts by number, for the names of their go blocks */
static int internal_hosts(lua_State *L) {
  lua_settop(L, 1);
  name_set_hosts(L);
  return 0;
}

/* at_rest(f or nil): see sim_set_at_rest */
static int internal_at_rest(lua_State *L) {
  lua_settop(L, 1);
  sim_set_at_rest(L);
  return 0;
}

static uint32_t host_at(lua_State *L, int at) {
  lua_Integer n = luaL_checkinteger(L, at);
  luaL_argcheck(L, n > 0 && n <= HOST_MAX && sched_self(L)->world.rules, at, "not a host of a simulation");
  return (uint32_t)n;
}

/* has_go(n) -> whether host n has go blocks, besides the running one */
static int internal_has_go(lua_State *L) {
  lua_pushboolean(L, sim_has_go(L, host_at(L, 1)));
  return 1;
}

/* crash(n): drops the go blocks of host n, except the running one */
static int internal_crash(lua_State *L) {
  sim_crash(L, host_at(L, 1));
  return 0;
}

void lua_hosts_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"at_rest", internal_at_rest}, {"crash", internal_crash}, {"has_go", internal_has_go},
      {"host", internal_host},       {"hosts", internal_hosts}, {NULL, NULL},
  };
  module_register(L, functions);
}
