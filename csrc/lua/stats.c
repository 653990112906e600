/* lua/stats.c: see lua/stats.h. */
#include "lua/stats.h"

#include <lauxlib.h>
#include <string.h>

#include "core/attr.h"
#include "states/pack.h"
#include "states/shared_ops.h"

/* The name of the metatable of the tables. */
#define STATS_TNAME "runnel.stats"

static const char *const KINDS[] = {"none", "fixed", "dropping", "sliding", "promise", "policy"};

ChanStats stats_of(lua_State *L, Chan *ch) {
  bool has_policy = ch->buf.kind == BUFFER_POLICY;
  lua_Integer count = has_policy ? chan_count(L, ch, 1) : 0; /* first: the policy may use the channel */
  ChanStats stats = chan_stats(L, ch);
  if (has_policy) stats.count = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
  return stats;
}

static void set_integer(lua_State *L, const char *key, lua_Integer n) {
  lua_pushinteger(L, n);
  lua_setfield(L, -2, key);
}

void stats_push(lua_State *L, Chan *ch) {
  ChanStats stats = stats_of(L, ch);
  lua_createtable(L, 0, 11);
  attr_push(L, 1, ATTR_NAME);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, KINDS[stats.kind]);
  lua_setfield(L, -2, "buffer");
  lua_pushboolean(L, stats.closed);
  lua_setfield(L, -2, "closed");
  if (chan_is_shared(ch)) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "shared");
  }
  set_integer(L, "id", (lua_Integer)ch->id);
  set_integer(L, "puts_waiting", stats.nputs);
  set_integer(L, "takes_waiting", stats.ntakes);
  set_integer(L, "values", stats.count);
  set_integer(L, "capacity", stats.limit);
  set_integer(L, "put_total", (lua_Integer)stats.puts);
  set_integer(L, "take_total", (lua_Integer)stats.takes);
  luaL_setmetatable(L, STATS_TNAME);
}

/* ---- names before 1.0 ---- */

/* A field that the table does not have: if it is an old name, an error says the new one. */
static int stats_index(lua_State *L) {
  static const char *const names[][2] = {{"puts", "puts_waiting"}, {"takes", "takes_waiting"}, {"count", "values"}};
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  for (int i = 0; i < 3; i++) {
    if (strcmp(key, names[i][0]) == 0) {
      return luaL_error(L, "ch:stats().%s is called ch:stats().%s now", names[i][0], names[i][1]);
    }
  }
  return 0;
}

void stats_open(lua_State *L) {
  luaL_newmetatable(L, STATS_TNAME);
  lua_pushcfunction(L, stats_index);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 1);
  lua_rawsetp(L, -2, &pack_as_plain);
  lua_pop(L, 1);
}
