/* news.c: notifies Lua of events of transfers; see client.h and kit/events.h. */
#include "http/client/client.h"

void client_rest(void *data) {
  Client *client = (Client *)data;
  if (client->under_way == 0) events_close(&client->events);
}

void transfer_leave(lua_State *L, Transfer *t) {
  Client *client = t->client;
  if (t->is_over) return;
  t->is_over = true;
  if (handle_find(L, client)) { /* else the state is being closed */
    lua_getiuservalue(L, -1, CLIENT_TRANSFERS);
    luaL_unref(L, -1, t->ref); /* allocates nothing: the place exists */
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  if (--client->under_way == 0 && client->rn->task_add(L, &client->rest) != RUNNEL_OK) client_rest(client);
}

/* Puts true on the channel that is a user value of the transfer at an index, if there is one: the waiting go block then
   checks the transfer. If memory runs out, closes the channel, which has the same effect. False if there is no memory
   for that either. */
static bool wake(lua_State *L, int transfer, int client, int which) {
  int top = lua_gettop(L);
  bool is_done = lua_getiuservalue(L, transfer, which) == LUA_TNIL;
  for (int how = CLIENT_OFFER; !is_done && how <= CLIENT_CLOSE; how++) {
    lua_getiuservalue(L, client, how);
    lua_pushvalue(L, top + 1);
    if (how == CLIENT_OFFER) lua_pushboolean(L, 1);
    is_done = lua_pcall(L, how == CLIENT_OFFER ? 2 : 1, 0, 0) == LUA_OK;
  }
  lua_settop(L, top);
  return is_done;
}

/* Makes Lua check a transfer; false if there is no memory for that. The client is at an index, its transfers above. */
static bool show(lua_State *L, int client, Transfer *t) {
  if (t->is_over) return true;
  bool has_ended = atomic_load(&t->has_ended); /* before Lua checks */
  int at = lua_gettop(L) + 1;
  lua_rawgeti(L, client + 1, t->ref);
  bool is_shown = wake(L, at, client, TRANSFER_NEWS) && wake(L, at, client, TRANSFER_ROOM);
  if (is_shown && has_ended) transfer_leave(L, t);
  lua_settop(L, at - 1);
  return is_shown;
}

int client_deliver(lua_State *L) {
  Client *client = (Client *)lua_touserdata(L, 1);
  Transfer *t;
  unsigned bits;
  bool is_shown = handle_find(L, client);
  if (is_shown) lua_getiuservalue(L, 2, CLIENT_TRANSFERS);
  while (is_shown && (t = (Transfer *)events_take(&client->events, &bits)) != NULL) {
    is_shown = show(L, 2, t);
    if (!is_shown) events_add(&client->events, t, bits); /* again */
    handle_release(t);
  }
  return 0;
}
