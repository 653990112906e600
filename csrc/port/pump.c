/* pump.c: see pump.h. */
#include "port/pump.h"

#include <lauxlib.h>

#include "blocks/driver.h"
#include "blocks/go.h"
#include "blocks/park.h"
#include "channels/alt.h"
#include "channels/chan.h"
#include "core/sched_wakeup.h"
#include "errors/error.h"
#include "tracing/trace_context.h"

/* Messages that a pump delivers before it lets other go blocks run. */
enum { BURST = 256 };

/* The stack of a pump. */
enum {
  AT_PUMP = 1,
  AT_CHAN,
  AT_VALUE, /* what is being put */
  AT_DONE,  /* closes with the channel */
  AT_END = AT_DONE
};

typedef struct Pump {
  Link link;   /* in Ports.pumps until its port is closed, and it has been told */
  Port *port;  /* where the messages come from; NULL once it is shut */
  Go *go;      /* the go block */
  bool idle;   /* it waits for a message */
  Chan *chan;  /* the channel, which its go block keeps alive */
  bool closes; /* it closes the channel in the end */
  bool quiet;  /* keeps the scheduler waiting only while a take waits on the channel */
} Pump;

/* The ports of a scheduler: a userdata that is made when the first port is opened. */
typedef struct Ports {
  PortHook hook; /* how the scheduler sees them */
  List pumps;    /* those whose ports are open: PORTS_HELD keeps them alive */
} Ports;

/* Its user value: a table of the go blocks of open ports, by Pump. */
enum { PORTS_HELD = 1 };

/* ---- the hook ---- */

static Ports *ports_of(const Sched *S) { return S->port_hook ? CONTAINER_OF(S->port_hook, Ports, hook) : NULL; }

/* Stops keeping a pump alive: it is collected once nothing can reach its channel. So it must not be in the list either:
   a finalizer for which a stack that has overflowed has no room is not called. */
static void let_go(lua_State *L, Ports *ports, Pump *pump) {
  if (pump->link.next) list_remove(&ports->pumps, &pump->link);
  lua_getiuservalue(L, SCHED_SELF, SCHED_PORTS);
  lua_getiuservalue(L, -1, PORTS_HELD);
  if (lua_rawgetp(L, -1, pump) != LUA_TNIL) {
    lua_pushnil(L);
    lua_rawsetp(L, -3, pump); /* an existing key: allocates nothing */
  }
  lua_pop(L, 3);
}

/* Whether the pump waits for a message, and its port has one or has closed. */
static bool has_news(const Pump *pump) {
  return pump->idle && pump->go->alt.state == ALT_PARKED && port_has_news(pump->port);
}

/* PortHook.poll: wakes the pumps whose ports have news. Does not raise. */
static void poll_ports(lua_State *L, Sched *S) {
  Ports *ports = ports_of(S);
  for (Link *link = ports->pumps.first, *next; link; link = next) {
    Pump *pump = CONTAINER_OF(link, Pump, link);
    next = list_next(&ports->pumps, link);
    bool is_closed = port_is_closed(pump->port); /* first: then this is the last news */
    if (has_news(pump)) alt_complete(L, S, &pump->go->alt, 0);
    if (is_closed) let_go(L, ports, pump);
  }
}

/* PortHook.alive: whether messages can be posted, or have been posted to a port that was then closed. */
static bool may_deliver(const Sched *S) {
  const Ports *ports = ports_of(S);
  for (Link *link = ports->pumps.first; link; link = list_next(&ports->pumps, link)) {
    const Pump *pump = CONTAINER_OF(link, Pump, link);
    bool is_open = !port_is_closed(pump->port); /* first, as in poll_ports: it may close between the two questions */
    if (has_news(pump) || (is_open && (!pump->quiet || pump->chan->waiting[TAKES]))) return true;
  }
  return false;
}

/* PortHook.closed: posts are refused from now on. The pumps find the channel closed at their next turn. */
static void close_ports(const Chan *ch) {
  const Ports *ports = ports_of(ch->sched);
  for (Link *link = ports->pumps.first; link; link = list_next(&ports->pumps, link)) {
    const Pump *pump = CONTAINER_OF(link, Pump, link);
    if (pump->chan == ch) port_close(pump->port);
  }
}

/* Gives the userdata on top of the stack metamethods with the scheduler as their upvalue. */
static void set_metamethods(lua_State *L, const luaL_Reg *metamethods) {
  lua_newtable(L);
  lua_pushvalue(L, SCHED_SELF);
  luaL_setfuncs(L, metamethods, 1);
  lua_setmetatable(L, -2);
}

/* Shuts the port of a pump. */
static void shut(Pump *pump) {
  Port *port = pump->port;
  pump->port = NULL;
  port_shut(port);
}

/* __gc of the Ports, when the state is closed: the pumps are finalized already, but for those that finalizers have made
   meanwhile, which Lua does not finalize. */
static int end_ports(lua_State *L) {
  Ports *ports = (Ports *)lua_touserdata(L, 1);
  while (ports->pumps.first) {
    Pump *pump = CONTAINER_OF(ports->pumps.first, Pump, link);
    list_remove(&ports->pumps, &pump->link);
    shut(pump);
  }
  return 0;
}

/* Pushes a new Ports. */
static Ports *new_ports(lua_State *L) {
  Ports *ports = (Ports *)lua_newuserdatauv(L, sizeof *ports, PORTS_HELD);
  *ports = (Ports){.hook = {.poll = poll_ports, .alive = may_deliver, .closed = close_ports}};
  lua_newtable(L);
  lua_setiuservalue(L, -2, PORTS_HELD);
  static const luaL_Reg metamethods[] = {{"__gc", end_ports}, {NULL, NULL}};
  set_metamethods(L, metamethods);
  return ports;
}

/* The scheduler's ports, made if they do not exist. May raise, and may leave something on the stack. */
static Ports *get_ports(lua_State *L, Sched *S) {
  Ports *ports = S->port_hook ? ports_of(S) : new_ports(L);
  if (!S->port_hook) { /* else a finalizer may have made them meanwhile */
    lua_setiuservalue(L, SCHED_SELF, SCHED_PORTS);
    S->port_hook = &ports->hook;
  }
  return ports_of(S);
}

/* ---- the go block ---- */

int message_push(lua_State *L, Message *message) {
  switch ((MessageKind)message->kind) {
  case MESSAGE_NONE: /* uncovered: no message has this kind */
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

/* Pushes the message's value, or nil if it has none or making it fails. The message is then MESSAGE_NONE. */
static void push_value(lua_State *L, Sched *S, Message *message) {
  if (message->kind <= MESSAGE_NUMBER) {
    message_push(L, message);
    message->kind = MESSAGE_NONE;
    return;
  }
  lua_getiuservalue(L, SCHED_SELF, SCHED_MSGH);
  lua_pushcfunction(L, make_value);
  lua_pushlightuserdata(L, message);
  const char *outer = S->inside;
  S->inside = "a callback of a port";
  int status = lua_pcall(L, 1, 1, AT_END + 1);
  S->inside = outer;
  message_drop(message);
  if (status == LUA_OK) return;
  error_push_traceback(L);
  lua_pushvalue(L, AT_CHAN);
  error_report(L);
  lua_pushnil(L);
}

static int deliver(lua_State *L);

static Pump *self(lua_State *L) { return (Pump *)lua_touserdata(L, AT_PUMP); }

/* Resumed: the port has a message or has closed, or the channel has closed. */
static int on_news(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  self(L)->idle = false;
  park_resumed(L, (Alt *)alt);
  return deliver(L);
}

/* Resumed: the put has completed. */
static int on_put(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  port_delivered(self(L)->port);
  return deliver(L);
}

/* Resumed: the other go blocks have run. */
static int on_turn(lua_State *L, int status, lua_KContext alt) {
  (void)status;
  park_resumed(L, (Alt *)alt);
  return deliver(L);
}

/* A pump's waiters do not count against the channel's limit, because each port has a limit of its own. */
static const Operation TAKE = {.name = "a port", .waiter = WAITER_UNCOUNTED};
static const Operation PUT = {.name = "a port", .is_put = true, .waiter = WAITER_UNCOUNTED};

/* Delivers messages until it has to wait. */
static int deliver(lua_State *L) {
  Sched *S = sched_self(L);
  Pump *pump = self(L);
  Chan *ch = (Chan *)lua_touserdata(L, AT_CHAN);
  for (int i = 0; i < BURST; i++) {
    lua_settop(L, AT_END);
    if (!pump->port || ch->flags & CHAN_CLOSED) return 0;
    bool closed = false;
    Message *message = port_first(pump->port, &closed);
    if (!message) {
      if (closed && pump->closes) chan_close(L, ch, AT_CHAN, 0);
      if (closed) return 0;
      pump->idle = true;
      return park_on(L, (Chan *)lua_touserdata(L, AT_DONE), AT_DONE, &TAKE, on_news);
    }
    push_value(L, S, message);
    bool is_nil = lua_isnil(L, -1);
    lua_replace(L, AT_VALUE);
    if (!is_nil && chan_put(L, ch, AT_CHAN, AT_VALUE) == PUT_WAIT) return park_on(L, ch, AT_CHAN, &PUT, on_put);
    lua_pushnil(L);
    lua_replace(L, AT_VALUE);
    port_delivered(pump->port);
  }
  return park_yield(L, S, &TAKE, on_turn);
}

/* The go block: (pump, channel, nil, done). However it ends, its port is shut. */
static int pump_messages(lua_State *L) {
  lua_toclose(L, AT_PUMP);
  return deliver(L);
}

/* ---- opening, and the end ---- */

/* __close and __gc of a pump. */
static int end_pump(lua_State *L) {
  Pump *pump = self(L);
  if (!pump->port) return 0;
  let_go(L, ports_of(sched_self(L)), pump);
  shut(pump);
  return 0;
}

/* Pushes a new pump without a port. */
static Pump *new_pump(lua_State *L) {
  static const luaL_Reg metamethods[] = {{"__gc", end_pump}, {"__close", end_pump}, {NULL, NULL}};
  Pump *pump = (Pump *)lua_newuserdatauv(L, sizeof *pump, 0);
  *pump = (Pump){0};
  set_metamethods(L, metamethods);
  return pump;
}

static int do_nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* Has a new coroutine allocate what its first call needs, so that it begins even if memory runs out: a pump that has
   not begun shuts no port. Raises if there is no memory now. */
static void prepare(lua_State *L, lua_State *co) {
  lua_pushcfunction(co, do_nothing);
  if (lua_pcall(co, 0, 0, 0) == LUA_OK) return;
  lua_pop(co, 1);
  (void)luaL_error(L, "not enough memory");
}

Port *pump_open(lua_State *L, Sched *S, int at, size_t limit, unsigned flags) {
  int top = lua_gettop(L);
  Chan *ch = (Chan *)lua_touserdata(L, at);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  Wakeup *wakeup = sched_wakeup(L, S);
  if (!wakeup) return NULL;
  Ports *ports = get_ports(L, S);
  lua_settop(L, top);
  lua_getiuservalue(L, SCHED_SELF, SCHED_PORTS);
  lua_getiuservalue(L, -1, PORTS_HELD);
  int held = lua_gettop(L);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, pump_messages, 1);
  Pump *pump = new_pump(L);
  lua_pushvalue(L, at);
  lua_pushnil(L);
  chan_push_done(L, ch, at);
  ((Chan *)lua_touserdata(L, -1))->flags |= CHAN_DONE_PORT;
  pump->chan = ch;
  pump->closes = flags & PUMP_CLOSES;
  pump->quiet = flags & PUMP_QUIET;
  pump->go = go_spawn(L, S, AT_END);
  if (chan_is_hidden(ch)) chan_hide(&pump->go->chan);
  /* If something fails from here on, the pump has no port, and its go block ends as soon as it runs. */
  int go = lua_gettop(L);
  if (S->tracer) { /* it lives on when the operation has ended in which it is made */
    lua_pushnil(L);
    trace_context_set(L, S, go);
  }
  prepare(L, pump->go->alt.co);
  lua_pushliteral(L, "a port to ");
  attr_push_name(L, ch, at);
  lua_concat(L, 2);
  attr_set(L, go, ATTR_GO);
  lua_pushvalue(L, go);
  lua_rawsetp(L, held, pump);
  lua_settop(L, top);
  pump->port = port_new(wakeup, limit);
  if (!pump->port) {
    let_go(L, ports, pump);
    return NULL;
  }
  list_append(&ports->pumps, &pump->link);
  if (chan_is_closed(ch)) port_close(pump->port); /* seldom covered: by a finalizer, or another thread, meanwhile */
  return pump->port;
}
