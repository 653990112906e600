/* attr.c: see attr.h. A channel has the table in its user value CHAN_ATTRS; a go block has it in SCHED_ATTRS, since few
   go blocks have attributes and each byte of a go block counts.

   Without a table, CHAN_ATTRS holds the reason of the close. A new table gets a place for it, with false until the
   close: so a close needs no memory. A go block has the reason in CHAN_ATTRS even if it has a table, unless other code
   has closed its result channel while it lived: then the table has it. */
#include "core/attr.h"

#include <lauxlib.h>
#include <string.h>

const char chan_tag = 'c';

bool attr_push_table(lua_State *L, int at) {
  const Chan *ch = (const Chan *)lua_touserdata(L, at);
  if (!(ch->flags & CHAN_HAS_ATTRS)) {
    lua_pushnil(L);
    return false;
  }
  if (!(ch->flags & CHAN_GO)) {
    lua_getiuservalue(L, at, CHAN_ATTRS);
  } else {
    lua_getiuservalue(L, SCHED_SELF, SCHED_ATTRS);
    lua_pushvalue(L, at);
    lua_rawget(L, -2);
    lua_replace(L, -2);
  }
  return true;
}

bool attr_table(lua_State *L, int at) {
  if (attr_push_table(L, at)) return false;
  lua_pop(L, 1);
  Chan *ch = (Chan *)lua_touserdata(L, at);
  lua_createtable(L, ch->flags & CHAN_GO ? 0 : ATTR_REASON, 0);
  if (attr_push_table(L, at)) { /* a finalizer has made one */
    lua_replace(L, -2);
    return true;
  }
  lua_pop(L, 1);
  if (!(ch->flags & CHAN_GO)) {
    if (ch->flags & CHAN_REASON) lua_getiuservalue(L, at, CHAN_ATTRS); /* the reason moves to the table */
    else lua_pushboolean(L, 0);
    lua_rawseti(L, -2, ATTR_REASON);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, at, CHAN_ATTRS);
  } else {
    lua_getiuservalue(L, SCHED_SELF, SCHED_ATTRS);
    lua_pushvalue(L, at);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  ch->flags |= CHAN_HAS_ATTRS;
  return true;
}

void attr_push(lua_State *L, int at, Attr key) {
  if (!attr_push_table(L, at)) return;
  lua_rawgeti(L, -1, key);
  lua_replace(L, -2);
}

void attr_set(lua_State *L, int at, Attr key) {
  attr_table(L, at);
  lua_insert(L, -2);
  lua_rawseti(L, -2, key);
  lua_pop(L, 1);
}

int attr_push_reason(lua_State *L, const Chan *ch, int at) {
  if (LIKELY(!(ch->flags & CHAN_REASON))) return 0;
  attr_push(L, at, ATTR_REASON);
  bool is_here = ch->flags & CHAN_GO ? lua_isnil(L, -1) : !(ch->flags & CHAN_HAS_ATTRS);
  if (is_here) {
    lua_getiuservalue(L, at, CHAN_ATTRS);
    lua_replace(L, -2);
  }
  return 1;
}

static bool is_control(char c) { return (unsigned char)c < ' ' || c == 0x7F; }

void attr_push_shown(lua_State *L, int i) {
  size_t size, at = 0;
  const char *name = lua_tolstring(L, i, &size);
  while (at < size && !is_control(name[at])) at++;
  if (LIKELY(at == size)) {
    lua_pushvalue(L, i);
    return;
  }
  luaL_Buffer b;
  char *line = luaL_buffinitsize(L, &b, size);
  memcpy(line, name, size);
  for (at = 0; at < size; at++) {
    if (is_control(line[at])) line[at] = '?';
  }
  luaL_pushresultsize(&b, size);
}

void attr_push_name(lua_State *L, const Chan *ch, int at) {
  attr_push(L, at, ATTR_NAME);
  if (lua_type(L, -1) == LUA_TSTRING) {
    attr_push_shown(L, lua_gettop(L));
    lua_replace(L, -2);
    lua_pushfstring(L, "chan: %s", lua_tostring(L, -1));
  } else {
    lua_pushfstring(L, "chan: #%I", (LUAI_UACINT)ch->id);
  }
  lua_replace(L, -2);
}
