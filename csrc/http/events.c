/* events.c: how the thread tells Lua that something has happened to transfers; see client.h.

   One event tells of all of them. If it does not arrive, because memory ran out, the thread posts another one. If the
   port itself dies of that, the next request opens a new one, and Lua hears of everything then. */
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

/* No event is on its way any more. */
static void end_event(Client *client) {
  client_lock(client);
  client->has_event = false;
  client_unlock(client);
}

/* runnel_drop: the port is shut, or there was no memory. Lua thread. */
static void drop_event(void *data) {
  Client *client = (Client *)data;
  end_event(client);
  client_wake(client); /* to post another one */
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
  client_unlock(client);
}

/* Posts an event. Client.lock must be held; it is left meanwhile. */
static int post(Client *client) {
  runnel_port *port = client->port;
  (void)client->rn->port_hold(port);
  client->has_event = true;
  atomic_fetch_add(&client->holds, 1);
  client_unlock(client);
  int code = client->rn->post_call(port, push_event, drop_event, client);
  (void)client->rn->port_release(port);
  client_lock(client);
  if (code != RUNNEL_OK) {
    client->has_event = false;           /* seldom covered: there is no memory, or the port has died of that */
    atomic_fetch_sub(&client->holds, 1); /* not the last: the thread's client lives */
  }
  return code;
}

void events_post(Client *client) {
  client_lock(client);
  while (client->port && !client->has_event && client->told.first) {
    int code = post(client);
    if (code == RUNNEL_CLOSED) break;
    if (code == RUNNEL_OK) continue;
    client_unlock(client);                                          /* seldom covered: there is no memory */
    (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* there may be some again soon */
    client_lock(client);
  }
  bool forgets = !client->port; /* Lua wants to know nothing */
  client_unlock(client);
  if (forgets) events_end(client);
}

/* ---- in the Lua thread ---- */

/* Sets the port, or NULL. Returns the one before. */
static runnel_port *set_port(Client *client, runnel_port *port) {
  client_lock(client);
  runnel_port *before = client->port;
  client->port = port;
  client_unlock(client);
  return before;
}

int events_open(lua_State *L, int at, Client *client) {
  runnel_chan *ch;
  runnel_port *port = NULL;
  if (client->port && client->rn->port_wait(client->port) == RUNNEL_OK) return RUNNEL_OK; /* it is never full */
  lua_getiuservalue(L, at, CLIENT_EVENTS);
  int code = client->rn->chan_get(L, -1, &ch);
  lua_pop(L, 1);
  if (code != RUNNEL_OK) return code;
  code = client->rn->port_open(L, ch, RUNNEL_PORT_MAX, RUNNEL_LEAVE_OPEN, &port);
  (void)client->rn->chan_release(L, ch);
  if (code != RUNNEL_OK) return code;
  port = set_port(client, port);
  if (port) (void)client->rn->port_release(port);
  return RUNNEL_OK;
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
  runnel_port *port = set_port(client, NULL);
  (void)client->rn->port_close(port);
  (void)client->rn->port_release(port);
}

void events_end(Client *client) {
  Transfer *t;
  while ((t = next_told(client)) != NULL) transfer_release(t);
}

/* Puts true on the channel that is a user value of the transfer at an index, if there is one: who waits there looks
   again. If memory runs out, the channel is closed, which has the same effect. False if there is no memory for that
   either. */
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

/* Has Lua look at a transfer; false if there is no memory for that. The client is at an index, its transfers above. */
static bool show(lua_State *L, int client, Transfer *t) {
  if (t->is_over) return true;
  bool has_ended = atomic_load(&t->has_ended); /* before Lua looks */
  int at = lua_gettop(L) + 1;
  lua_rawgeti(L, client + 1, t->ref);
  bool is_shown = wake(L, at, client, TRANSFER_NEWS) && wake(L, at, client, TRANSFER_ROOM);
  if (is_shown && has_ended) events_leave(L, t);
  lua_settop(L, at - 1);
  return is_shown;
}

/* runnel_push */
static int push_event(lua_State *L, void *data) {
  Client *c = (Client *)data;
  Transfer *t;
  end_event(c); /* before the list is taken: what comes from now on posts again */
  bool is_open = lua_rawgetp(L, LUA_REGISTRYINDEX, c) == LUA_TUSERDATA, is_shown = true;
  int client = lua_gettop(L);
  lua_getiuservalue(L, client, CLIENT_TRANSFERS);
  while (is_shown && (t = next_told(c)) != NULL) {
    is_shown = !is_open || show(L, client, t);
    if (!is_shown) events_tell(t); /* again */
    transfer_release(t);
  }
  if (!is_shown) client_wake(c); /* to post another event */
  lua_settop(L, client - 1);
  client_release(c);
  return 0;
}
