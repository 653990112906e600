/* announce.c: see announce.h. */
#include "channels/announce.h"

#include "channels/chan.h"
#include "core/observe.h"

Chan *announce_new(lua_State *L, Sched *S, int list, uint32_t n) {
  chan_reserve_all(L, (Chan *)lua_touserdata(L, list), list, n);
  Chan *ch = chan_new(L, S, sizeof(Chan), ANNOUNCE_ON);
  ch->buf = (Buffer){.kind = BUFFER_FIXED, .limit = 1, .size = 1, .base = CHAN_VALUES};
  ch->flags = CHAN_SLOTS | CHAN_ANNOUNCES;
  lua_pushvalue(L, list);
  lua_setiuservalue(L, -2, ANNOUNCE_ON);
  observe_birth(L, S, lua_gettop(L));
  return ch;
}

void announce(lua_State *L, Chan *ch, int at) {
  Sched *S = ch->sched;
  ch->flags &= ~(uint32_t)CHAN_ANNOUNCES;
  lua_getiuservalue(L, at, ANNOUNCE_ON);
  int list_at = lua_gettop(L);
  Chan *list = (Chan *)lua_touserdata(L, list_at);
  if (LIKELY(!(list->flags & CHAN_CLOSED))) {
    chan_store(L, list, list_at, at);
    list->put_total++;
    Waiter *w = chan_first_taker(list);
    if (w) {
      lua_pushboolean(w->alt->co, 1);
      alt_complete(L, S, w->alt, 1);
    }
    chan_check(list);
    OBSERVE(S, put, L, list, list_at, at, NULL);
  }
  lua_settop(L, list_at - 1);
}

bool announce_again(lua_State *L, Chan *ch, int at) {
  bool announces = lua_getiuservalue(L, at, ANNOUNCE_ON) == LUA_TUSERDATA;
  lua_pop(L, 1);
  if (announces) ch->flags |= CHAN_ANNOUNCES;
  return announces;
}
