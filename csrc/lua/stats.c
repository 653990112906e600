/* lua/stats.c: see lua/stats.h. */
#include "lua/stats.h"

#include "core/attr.h"
#include "states/shared_ops.h"

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
}
