/* events.c: how the thread tells Lua that something has happened to transfers; see client.h.

   One event tells of all of them. It is posted to the port of one transfer, which may be closed, since that transfer was
   cancelled; then the next one posts another. */
#include <time.h>

#include "http/client.h"

/* The first of `told`, taken from there, with its hold; NULL if there is none. */
static Transfer *next_told(Client *client) {
  client_lock(client);
  Link *first = client->told.first;
  Transfer *t = first ? CONTAINER_OF(first, Transfer, told) : NULL;
  if (t) {
    list_remove(&client->told, first);
    t->is_told = false;
  }
  client_unlock(client);
  return t;
}

/* ---- in the thread ---- */

static int push_event(lua_State *L, void *data);

/* runnel_drop: the port is shut. */
static void drop_event(void *data) {
  Client *client = (Client *)data;
  client_lock(client);
  client->has_event = false;
  client_unlock(client);
  client_release(client);
}

void events_tell(Transfer *t) {
  Client *client = t->client;
  client_lock(client);
  if (!t->is_told) {
    atomic_fetch_add(&t->holds, 1);
    list_append(&client->told, &t->told);
    t->is_told = true;
  }
  bool posts = !client->has_event;
  client->has_event = true;
  client_unlock(client);
  if (!posts) return;
  atomic_fetch_add(&client->holds, 1);
  int code;
  while ((code = client->rn->post_call(t->port, push_event, drop_event, client)) == RUNNEL_NO_MEMORY) {
    /* uncovered: memory that is lacking may be there again soon; without the event, Lua would wait for ever */
    (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  if (code != RUNNEL_OK) drop_event(client);
}

/* ---- in the Lua thread ---- */

int events_open(lua_State *L, int at, Client *client) {
  if (client->port) return RUNNEL_OK;
  runnel_chan *ch;
  lua_getiuservalue(L, at, CLIENT_EVENTS);
  int code = client->rn->chan_get(L, -1, &ch);
  lua_pop(L, 1);
  if (code != RUNNEL_OK) return code;
  code = client->rn->port_open(L, ch, RUNNEL_PORT_MAX, RUNNEL_LEAVE_OPEN, &client->port);
  (void)client->rn->chan_release(L, ch);
  return code;
}

void events_leave(lua_State *L, Transfer *t) {
  Client *client = t->client;
  if (t->is_over) return;
  t->is_over = true;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, client) == LUA_TUSERDATA) { /* else the state is being closed */
    lua_getiuservalue(L, -1, CLIENT_TRANSFERS);
    luaL_unref(L, -1, t->ref); /* allocates nothing: the place exists */
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  if (--client->under_way > 0) return;
  (void)client->rn->port_close(client->port);
  (void)client->rn->port_release(client->port);
  client->port = NULL;
}

void events_end(Client *client) {
  Transfer *t;
  while ((t = next_told(client)) != NULL) transfer_release(t);
}

/* Puts true on the channel that is a user value of the transfer at an index, if there is one: who waits there looks
   again. If memory runs out, the channel is closed, which has the same effect. */
static void wake(lua_State *L, int transfer, int client, int which) {
  if (lua_getiuservalue(L, transfer, which) != LUA_TNIL) {
    lua_getiuservalue(L, client, CLIENT_OFFER);
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
      lua_pop(L, 1);
      lua_getiuservalue(L, client, CLIENT_CLOSE);
      lua_pushvalue(L, -2);
      if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1); /* uncovered: closing needs no memory */
    }
  }
  lua_pop(L, 1);
}

/* runnel_push */
static int push_event(lua_State *L, void *data) {
  Client *c = (Client *)data;
  Transfer *t;
  client_lock(c);
  c->has_event = false; /* before the list is taken: what comes from now on posts again */
  client_unlock(c);
  bool is_open = lua_rawgetp(L, LUA_REGISTRYINDEX, c) == LUA_TUSERDATA;
  int client = lua_gettop(L);
  lua_getiuservalue(L, client, CLIENT_TRANSFERS);
  while ((t = next_told(c)) != NULL) {
    if (is_open && !t->is_over) {
      lua_rawgeti(L, client + 1, t->ref);
      if (atomic_load(&t->has_ended)) events_leave(L, t);
      wake(L, client + 2, client, TRANSFER_NEWS);
      wake(L, client + 2, client, TRANSFER_ROOM);
      lua_pop(L, 1);
    }
    transfer_release(t);
  }
  lua_settop(L, client - 1);
  client_release(c);
  return 0;
}
