/* hold.c: see hold.h. */
#include "capi/hold.h"

#include "core/attr.h"

/* A handle, called a hold in this folder: a userdata whose user value is the channel. The registry has it by its
   address. Every function looks it up there first, so that using a released one is an error and not a crash. */
struct runnel_chan {
  char nothing; /* a struct must have a member */
};

Chan *api_push_chan(lua_State *L, const runnel_chan *hold) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, hold);
  if (lua_type(L, -1) != LUA_TUSERDATA || lua_touserdata(L, -1) != hold) return NULL;
  lua_getiuservalue(L, -1, 1);
  lua_replace(L, -2);
  return chan_to(L, lua_gettop(L));
}

runnel_chan *api_hold(lua_State *L) {
  runnel_chan *hold = (runnel_chan *)lua_newuserdatauv(L, sizeof *hold, 1);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, hold);
  return hold;
}

void api_set_hold(lua_State *L, const runnel_chan *hold) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, hold);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  lua_pop(L, 1);
}

Go *api_to_go(lua_State *L, int at) {
  Chan *ch = chan_to(L, at);
  if (!(ch->flags & CHAN_GO)) {
    attr_push(L, at, ATTR_THREAD);
    ch = chan_to(L, lua_gettop(L));
    if (ch) lua_replace(L, at);
    else lua_pop(L, 1);
  }
  return ch && ch->flags & CHAN_GO ? CONTAINER_OF(ch, Go, chan) : NULL;
}
