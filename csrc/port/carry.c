/* carry.c: see carry.h. */
#include "port/carry.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "core/chan.h"
#include "core/go.h"
#include "core/park.h"
#include "core/report.h"

/* Messages that a carrier delivers before it lets others run. */
enum { BURST = 256 };

/* What a carrier has on its stack. */
enum {
  AT_CARRIER = 1,
  AT_CHAN,
  AT_VALUE, /* what is being put */
  AT_DONE,  /* closes with the channel */
  AT_END = AT_DONE
};

typedef struct Carrier {
  Link link;   /* in Sched.carriers until its port is shut */
  Port *port;  /* where messages come from; NULL once it is shut */
  Go *go;      /* the go block */
  bool idle;   /* it waits for news of the port */
  bool closes; /* closes the channel in the end */
} Carrier;

/* ---- the bell ---- */

static int free_bell(lua_State *L) {
  Sched *S = sched_self(L);
  if (S->bell) bell_release(S->bell);
  S->bell = NULL;
  return 0;
}

/* Gives the userdata on top of the stack metamethods with the scheduler as their upvalue. */
static void set_metamethods(lua_State *L, const luaL_Reg *metamethods) {
  lua_newtable(L);
  lua_pushvalue(L, SCHED_SELF);
  luaL_setfuncs(L, metamethods, 1);
  lua_setmetatable(L, -2);
}

Bell *carry_bell(lua_State *L, Sched *S) {
  static const luaL_Reg metamethods[] = {{"__gc", free_bell}, {NULL, NULL}};
  if (S->bell) return S->bell;
  lua_newuserdatauv(L, 0, 0);
  set_metamethods(L, metamethods);
  lua_setiuservalue(L, SCHED_SELF, SCHED_BELL);
  if (!S->bell) S->bell = bell_new(); /* a finalizer may have been faster */
  if (!S->bell && errno != ENOMEM) luaL_error(L, "port: cannot make a pipe: %s", strerror(errno));
  return S->bell;
}

/* ---- the go block ---- */

int message_push(lua_State *L, Message *message) {
  switch ((MessageKind)message->kind) {
  case MESSAGE_NONE:
    return 0;
  case MESSAGE_BOOLEAN:
    lua_pushboolean(L, message->as.boolean);
    break;
  case MESSAGE_INTEGER:
    lua_pushinteger(L, message->as.integer);
    break;
  case MESSAGE_NUMBER:
    lua_pushnumber(L, message->as.number);
    break;
  case MESSAGE_SMALL_BYTES:
    lua_pushlstring(L, message->as.small, message->small);
    break;
  case MESSAGE_BYTES:
    lua_pushlstring(L, message->as.bytes.start, message->as.bytes.size);
    break;
  case MESSAGE_CALL:
    message->kind = MESSAGE_NONE;
    return message->as.call.push(L, message->as.call.data);
  }
  return 1;
}

/* (message) -> its value, or nothing */
static int make_value(lua_State *L) { return message_push(L, (Message *)lua_touserdata(L, 1)); }

/* Pushes the message's value, or nil where there is none. It is MESSAGE_NONE then. */
static void push_value(lua_State *L, Sched *S, Message *message) {
  if (message->kind <= MESSAGE_NUMBER) {
    message_push(L, message);
    message->kind = MESSAGE_NONE;
    return;
  }
  const char *outer = S->inside;
  lua_getiuservalue(L, SCHED_SELF, SCHED_MSGH);
  lua_pushcfunction(L, make_value);
  lua_pushlightuserdata(L, message);
  S->inside = "a callback of a port";
  int status = lua_pcall(L, 1, 1, AT_END + 1);
  S->inside = outer;
  message_drop(message);
  if (status == LUA_OK) return;
  report_push_traceback(L);
  lua_pushvalue(L, AT_CHAN);
  report_error(L);
  lua_pushnil(L);
}

static int carry_on(lua_State *L);

static Carrier *self(lua_State *L) { return (Carrier *)lua_touserdata(L, AT_CARRIER); }

/* Once the channel has closed, or there is news of the port. */
static int on_news(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  self(L)->idle = false;
  park_resumed(L, (Alt *)alt);
  return carry_on(L);
}

/* Once the put has been completed. */
static int on_put(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  port_delivered(self(L)->port);
  return carry_on(L);
}

/* Once the others have run. */
static int on_turn(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  return carry_on(L);
}

/* Any number of carriers may wait on a channel: each port has a limit of its own. */
static const Operation TAKE = {.name = "a port", .level = 1, .is_free = true};
static const Operation PUT = {.name = "a port", .level = 1, .is_free = true, .is_put = true};

/* Delivers messages until it has to wait. */
static int carry_on(lua_State *L) {
  Sched *S = sched_self(L);
  Carrier *carrier = self(L);
  Chan *ch = (Chan *)lua_touserdata(L, AT_CHAN);
  for (int i = 0; i < BURST; i++) {
    lua_settop(L, AT_END);
    if (!carrier->port || ch->flags & CHAN_CLOSED) return 0;
    bool closed = false;
    Message *message = port_first(carrier->port, &closed);
    if (!message) {
      if (closed && carrier->closes) chan_close(L, ch, AT_CHAN, 0);
      if (closed) return 0;
      carrier->idle = true;
      return park_on(L, (Chan *)lua_touserdata(L, AT_DONE), AT_DONE, &TAKE, on_news);
    }
    push_value(L, S, message);
    bool is_nil = lua_isnil(L, -1);
    lua_replace(L, AT_VALUE);
    if (!is_nil && chan_put(L, ch, AT_CHAN, AT_VALUE) == PUT_WAIT) return park_on(L, ch, AT_CHAN, &PUT, on_put);
    lua_pushnil(L);
    lua_replace(L, AT_VALUE);
    port_delivered(carrier->port);
  }
  return park_yield(L, S, &TAKE, on_turn);
}

/* The go block: (carrier, channel, nil, done). However it ends, its port is shut. */
static int carry(lua_State *L) {
  lua_toclose(L, AT_CARRIER);
  return carry_on(L);
}

/* ---- opening, and the end ---- */

/* Lets the collector have a carrier when nobody can reach its channel. */
static void let_go(lua_State *L, const Carrier *carrier) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_CARRIERS);
  if (lua_rawgetp(L, -1, carrier) != LUA_TNIL) {
    lua_pushnil(L);
    lua_rawsetp(L, -3, carrier); /* a key that is there: allocates nothing */
  }
  lua_pop(L, 2);
}

/* __close and __gc of a carrier. */
static int end_carrier(lua_State *L) {
  Carrier *carrier = self(L);
  if (!carrier->port) return 0;
  Port *port = carrier->port;
  carrier->port = NULL;
  list_remove(&sched_self(L)->carriers, &carrier->link);
  let_go(L, carrier);
  port_shut(port);
  return 0;
}

/* Pushes a new carrier without a port. */
static Carrier *new_carrier(lua_State *L) {
  static const luaL_Reg metamethods[] = {{"__gc", end_carrier}, {"__close", end_carrier}, {NULL, NULL}};
  Carrier *carrier = (Carrier *)lua_newuserdatauv(L, sizeof *carrier, 0);
  *carrier = (Carrier){0};
  set_metamethods(L, metamethods);
  return carrier;
}

/* Pushes the table in which the scheduler holds the go blocks of open ports. */
static void push_carriers(lua_State *L) {
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_CARRIERS) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  if (lua_getiuservalue(L, SCHED_SELF, SCHED_CARRIERS) == LUA_TTABLE) { /* a finalizer was faster */
    lua_replace(L, -2);
    return;
  }
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_CARRIERS);
}

Port *carry_open(lua_State *L, Sched *S, int at, size_t limit, bool closes) {
  int top = lua_gettop(L);
  Chan *ch = (Chan *)lua_touserdata(L, at);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  Bell *bell = carry_bell(L, S);
  if (!bell) return NULL;
  push_carriers(L);
  int carriers = lua_gettop(L);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, carry, 1);
  Carrier *carrier = new_carrier(L);
  lua_pushvalue(L, at);
  lua_pushnil(L);
  chan_push_done(L, ch, at);
  carrier->closes = closes;
  carrier->go = go_spawn(L, S, AT_END);
  /* From here on it is a go block that will end at once, unless it gets a port. */
  int go = lua_gettop(L);
  lua_pushliteral(L, "a port to ");
  attr_push_name(L, ch, at);
  lua_concat(L, 2);
  attr_set(L, go, ATTR_GO);
  lua_pushvalue(L, go);
  lua_rawsetp(L, carriers, carrier);
  lua_settop(L, top);
  carrier->port = port_new(bell, limit);
  if (!carrier->port) {
    let_go(L, carrier);
    return NULL;
  }
  list_append(&S->carriers, &carrier->link);
  return carrier->port;
}

void carry_listen(lua_State *L, Sched *S) {
  if (LIKELY(!S->bell) || !bell_heard(S->bell)) return;
  Link *link = S->carriers.first;
  if (!link) return;
  do {
    Carrier *carrier = CONTAINER_OF(link, Carrier, link);
    if (carrier->idle && carrier->go->alt.state == ALT_PARKED && port_has_news(carrier->port)) {
      alt_complete(L, S, &carrier->go->alt, 0);
    }
    if (port_is_closed(carrier->port)) let_go(L, carrier);
    link = link->next;
  } while (link != S->carriers.first);
}

bool carry_is_alive(const Sched *S) {
  Link *link = S->carriers.first;
  if (!link) return false;
  do {
    if (!port_is_closed(CONTAINER_OF(link, Carrier, link)->port)) return true;
    link = link->next;
  } while (link != S->carriers.first);
  return false;
}
