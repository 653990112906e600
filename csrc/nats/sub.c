/* sub.c: subscriptions. libnats has a thread for each of them, which calls `on_message` for one message after the
   other. While the port is full that thread waits, and libnats keeps what arrives up to the limits of the subscription;
   what exceeds them it drops and counts.

   Direct subscriptions have no thread: the connection's thread (io.c) takes their messages as soon as it has read them.
   That saves a change of threads for each bunch of messages. But libnats does not give them the server's answer that
   nobody subscribes to a subject as a message, so that its subject is not known. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nats/conn.h"

/* Messages between libnats' thread and the channel, at most. */
enum { PORT_LIMIT = 1024 };

/* Bytes of messages that Lua has and that wait to be destroyed, at most. */
enum { SPENT_BYTES = 64 * 1024 };

/* The registry key of the metatable. */
#define SUB_TYPE "runnel.nats.sub"

/* The user value of a subscription: the metatable of its messages, or the function that gets them. */
enum { SUB_TAKER = 1 };

/* A message on its way. */
typedef struct Delivery {
  natsMsg *msg; /* owned; NULL for the answer that nobody subscribes */
  Sub *sub;     /* with a hold */
  int64_t came; /* when it has arrived, in ms of the monotonic clock */
} Delivery;

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sub_release(Sub *sub) {
  if (atomic_fetch_sub(&sub->holds, 1) > 1) return;
  (void)sub->conn->rn->port_release(sub->port);
  conn_release(sub->conn);
  free(sub);
}

static Sub *sub_hold(Sub *sub) {
  atomic_fetch_add(&sub->holds, 1);
  return sub;
}

/* ---- messages ---- */

static void drop(void *data) {
  Delivery *delivery = (Delivery *)data;
  natsMsg_Destroy(delivery->msg);
  sub_release(delivery->sub);
  free(delivery);
}

void sub_destroy_spent(Conn *conn) {
  for (size_t i = 0; i < conn->nspent; i++) natsMsg_Destroy(conn->spent[i]);
  conn->nspent = conn->spent_bytes = 0;
}

/* Drops a message that Lua has. libnats has a thread that frees the memory of destroyed messages, and wakes it for each
   message that finds it asleep. So messages are destroyed together. */
static void spend(Delivery *delivery) {
  Conn *conn = delivery->sub->conn;
  if (delivery->msg) {
    conn->spent[conn->nspent++] = delivery->msg;
    conn->spent_bytes += (size_t)natsMsg_GetDataLength(delivery->msg);
  }
  if (conn->nspent == SPENT_LIMIT || conn->spent_bytes > SPENT_BYTES) sub_destroy_spent(conn);
  sub_release(delivery->sub);
  free(delivery);
}

static bool is_ack(const char *reply) { return reply && strncmp(reply, "$JS.ACK.", 8) == 0; }

/* The ms since a message has come: while Lua computed, the time for its acknowledgement may have run out. */
static void push_age(lua_State *L, const Delivery *delivery) {
  lua_pushinteger(L, (lua_Integer)(now_ms() - delivery->came));
}

/* Pushes the arguments for the taker of a direct subscription (runnel.EngineTaker in remote.lua), and returns how many
   they are. */
static int push_parts(lua_State *L, const Delivery *delivery) {
  natsMsg *msg = delivery->msg;
  if (!msg) {
    lua_pushliteral(L, "");
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushstring(L, delivery->sub->sub ? natsSubscription_GetSubject(delivery->sub->sub) : "");
    lua_pushliteral(L, "503");
    return 5;
  }
  const char *reply = natsMsg_GetReply(msg), *status = NULL;
  lua_pushlstring(L, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
  lua_pushstring(L, reply); /* nil for NULL */
  if (is_ack(reply)) {
    push_age(L, delivery);
    return 3;
  }
  lua_pushnil(L);
  lua_pushstring(L, natsMsg_GetSubject(msg));
  if (natsMsgHeader_Get(msg, "Status", &status) != NATS_OK) return 4;
  lua_pushstring(L, status);
  return 5;
}

/* Protected: (delivery) -> message, or nothing if a function has got it */
static int make(lua_State *L) {
  const Delivery *delivery = (const Delivery *)lua_touserdata(L, 1);
  bool is_known = lua_rawgetp(L, LUA_REGISTRYINDEX, delivery->sub) == LUA_TUSERDATA;
  if (is_known) lua_getiuservalue(L, -1, SUB_TAKER);
  else lua_pushnil(L);
  if (delivery->sub->is_direct) {
    if (lua_isfunction(L, -1)) lua_call(L, push_parts(L, delivery), 0);
    return 0;
  }
  message_push_table(L, delivery->msg);
  if (is_ack(natsMsg_GetReply(delivery->msg))) {
    push_age(L, delivery);
    lua_setfield(L, -2, "age");
  }
  if (lua_isfunction(L, -2)) {
    lua_call(L, 1, 0);
    return 0;
  }
  if (lua_istable(L, -2)) {
    lua_pushvalue(L, -2);
    lua_setmetatable(L, -2);
  }
  return 1;
}

/* runnel_push */
static int push(lua_State *L, void *data) {
  int top = lua_gettop(L);
  lua_pushcfunction(L, make);
  lua_pushlightuserdata(L, data);
  int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  spend((Delivery *)data);
  if (status != LUA_OK) return lua_error(L);
  return lua_gettop(L) - top;
}

/* A message that has come; NULL if there is no memory. Owns the message. */
static Delivery *new_delivery(Sub *sub, natsMsg *msg) {
  Delivery *delivery = (Delivery *)malloc(sizeof *delivery);
  if (delivery) {
    *delivery = (Delivery){.msg = msg, .sub = sub_hold(sub), .came = now_ms()};
    atomic_fetch_add(&sub->delivered, 1);
    return delivery;
  }
  atomic_fetch_add(&sub->refused, 1);
  natsMsg_Destroy(msg);
  return NULL;
}

/* Drops a message that was not posted, which returned `code`. */
static void not_delivered(Delivery *delivery, int code) {
  Sub *sub = delivery->sub;
  atomic_fetch_sub(&sub->delivered, 1);
  if (code == RUNNEL_NO_MEMORY) atomic_fetch_add(&sub->refused, 1);
  drop(delivery);
}

/* In libnats' thread for the subscription. */
static void on_message(natsConnection *nc, natsSubscription *subscription, natsMsg *msg, void *closure) {
  (void)nc;
  (void)subscription;
  Sub *sub = (Sub *)closure;
  const runnel_functions *rn = sub->conn->rn;
  Delivery *delivery = new_delivery(sub, msg);
  if (!delivery) return;
  int code;
  while ((code = rn->post_call(sub->port, push, drop, delivery)) == RUNNEL_FULL) {
    if (rn->port_wait(sub->port) != RUNNEL_OK) break;
  }
  if (code != RUNNEL_OK) not_delivered(delivery, code);
}

/* In that thread, or the one that takes the messages, after the last message. */
static void on_complete(void *closure) {
  Sub *sub = (Sub *)closure;
  Conn *conn = sub->conn;
  (void)conn->rn->port_close(sub->port);
  (void)pthread_mutex_lock(&conn->lock);
  conn->delivering--;
  (void)pthread_cond_broadcast(&conn->changed);
  (void)pthread_mutex_unlock(&conn->lock);
  sub_release(sub);
}

/* ---- direct subscriptions ---- */

/* Posts a message; false if there is no room. */
static bool post(Sub *sub, Delivery *delivery) {
  int code = sub->conn->rn->post_call(sub->port, push, drop, delivery);
  sub->full = code == RUNNEL_FULL ? delivery : NULL;
  if (code != RUNNEL_OK && code != RUNNEL_FULL) not_delivered(delivery, code);
  return code != RUNNEL_FULL;
}

/* Takes what libnats has for the subscription. Returns false if it has ended. */
static bool take_messages(Sub *sub) {
  int count = 0;
  if (sub->full && !post(sub, sub->full)) return true;
  while (natsSubscription_GetPending(sub->sub, &count, NULL) == NATS_OK) {
    if (count == 0) return !sub->is_draining || natsSubscription_DrainCompletionStatus(sub->sub) == NATS_ILLEGAL_STATE;
    for (; count > 0; count--) {
      natsMsg *msg = NULL;
      natsStatus s = natsSubscription_NextMsg(&msg, sub->sub, 0);
      if (s == NATS_SLOW_CONSUMER) continue; /* told once; not a message */
      if (s != NATS_OK && s != NATS_NO_RESPONDERS) break;
      Delivery *delivery = new_delivery(sub, msg);
      if (delivery && !post(sub, delivery)) return true;
    }
  }
  return false;
}

/* Removes the one at *at from Conn.direct; no message of it will be posted any more. */
static void end_direct(Sub **at) {
  Sub *sub = *at;
  *at = sub->next;
  if (sub->full) drop(sub->full);
  sub->full = NULL;
  on_complete(sub);
}

bool sub_take_all(Conn *conn) {
  bool look_again = false;
  (void)pthread_mutex_lock(&conn->direct_lock);
  for (Sub **at = &conn->direct; *at;) {
    Sub *sub = *at;
    if (take_messages(sub)) {
      look_again = look_again || sub->full || sub->is_draining;
      at = &sub->next;
    } else {
      end_direct(at);
    }
  }
  (void)pthread_mutex_unlock(&conn->direct_lock);
  return look_again;
}

/* The Lua thread ends the subscription. */
static void close_direct(Sub *sub) {
  Conn *conn = sub->conn;
  (void)pthread_mutex_lock(&conn->direct_lock);
  for (Sub **at = &conn->direct; *at; at = &(*at)->next) {
    if (*at != sub) continue;
    end_direct(at);
    break;
  }
  (void)pthread_mutex_unlock(&conn->direct_lock);
}

static void open_direct(Sub *sub) {
  Conn *conn = sub->conn;
  sub->is_direct = true;
  (void)pthread_mutex_lock(&conn->direct_lock);
  sub->next = conn->direct;
  conn->direct = sub;
  (void)pthread_mutex_unlock(&conn->direct_lock);
  wakeup_signal(conn->io.wakeup); /* a message may have come before */
}

/* ---- opening and closing ---- */

Sub *sub_find(const Conn *conn, const void *subscription) {
  Link *link = conn->subs.first;
  if (!link) return NULL;
  do {
    Sub *sub = CONTAINER_OF(link, Sub, link);
    if (sub->sub == subscription) return sub;
    link = link->next;
  } while (link != conn->subs.first);
  return NULL;
}

int64_t sub_dropped(Sub *sub) {
  int64_t dropped = 0;
  /* libnats does not tell of a closed subscription. */
  if (sub->sub && natsSubscription_GetDropped(sub->sub, &dropped) == NATS_OK) sub->dropped = dropped;
  return sub->dropped + (int64_t)atomic_load(&sub->refused);
}

/* Ends the subscription. What has been posted is still delivered. Does not raise. */
static void close_sub(Sub *sub) {
  if (!sub->sub) return;
  natsSubscription *subscription = sub->sub;
  if (sub->is_direct) close_direct(sub);
  (void)sub_dropped(sub);
  sub->sub = NULL;
  list_remove(&sub->conn->subs, &sub->link);
  (void)sub->conn->rn->port_close(sub->port); /* first: on_message may be waiting */
  /* libnats' reader may use it without a reference of its own, so it is destroyed later: see destroy_unused. */
  (void)natsSubscription_Unsubscribe(subscription);
  sub->ended = subscription;
  list_append(&sub->conn->ended_subs, &sub_hold(sub)->link);
}

static void destroy_ended(Sub *sub) {
  list_remove(&sub->conn->ended_subs, &sub->link); /* NOLINT(clang-analyzer-unix.Malloc): each is in the list once */
  natsSubscription_Destroy(sub->ended);
  sub_release(sub);
}

void sub_destroy_ended(Conn *conn) {
  while (conn->ended_subs.first) destroy_ended(CONTAINER_OF(conn->ended_subs.first, Sub, link));
}

/* How many messages the connection has received, all subscriptions together; 0 if that is not known. */
static uint64_t count_received(const Conn *conn) {
  natsStatistics *stats = NULL;
  uint64_t count = 0, unused;
  if (natsStatistics_Create(&stats) != NATS_OK) return 0;
  if (natsConnection_GetStats(conn->nc, stats) != NATS_OK ||
      natsStatistics_GetCounts(stats, &count, &unused, &unused, &unused, &unused) != NATS_OK)
    count = 0;
  natsStatistics_Destroy(stats);
  return count;
}

/* Destroys those subscriptions that have ended and that libnats' reader cannot use any more. The reader counts a
   message before it looks for its subscription. So when it has counted one more, it is done with those before. */
static void destroy_unused(Conn *conn) {
  if (!conn->ended_subs.first || atomic_load(&conn->outbox.is_lost)) return; /* libnats may hold its lock for long */
  uint64_t count = count_received(conn);
  while (conn->ended_subs.first) { /* in the order of their ends */
    Sub *sub = CONTAINER_OF(conn->ended_subs.first, Sub, link);
    if (sub->ended_at == 0 || sub->ended_at >= count) break; /* NOLINT(clang-analyzer-unix.Malloc): as above */
    destroy_ended(sub);
  }
  Link *first = conn->ended_subs.first;
  if (!first) return;
  Link *link = first;
  do {
    link = link->prev;
    Sub *sub = CONTAINER_OF(link, Sub, link);
    if (sub->ended_at != 0) break;
    sub->ended_at = count;
  } while (link != first);
}

void sub_close_all(Conn *conn) {
  while (conn->subs.first) close_sub(CONTAINER_OF(conn->subs.first, Sub, link));
}

/* A channel's handle for a C module, for the channel at an index. */
static runnel_port *open_port(lua_State *L, const runnel_functions *rn, int at, int end) {
  runnel_chan *ch;
  runnel_port *port = NULL;
  int code = rn->chan_get(L, at, &ch);
  if (code == RUNNEL_OK) {
    code = rn->port_open(L, ch, PORT_LIMIT, end, &port);
    (void)rn->chan_release(L, ch);
  }
  if (code != RUNNEL_OK) luaL_error(L, "cannot open a port: %s", rn->strerror(code));
  return port;
}

/* subscribe(subject, queue, channel, taker, messages, bytes, quiet, direct) -> sub | nil, message [, true]: `taker` is
   the metatable of the messages that are put on the channel, or a function that is called with each of them instead.
   `messages` and `bytes` is how much libnats keeps while the channel is full. The channel is closed at the end. A direct
   subscription has no queue, and its taker is a function, which is called with what is in a message. */
int conn_subscribe(lua_State *L) {
  Conn *conn = conn_check(L);
  size_t size;
  const char *subject = luaL_checklstring(L, 2, &size);
  const char *queue = luaL_optstring(L, 3, NULL);
  int messages = conn_int(L, 6), bytes = conn_int(L, 7);
  int end = RUNNEL_CLOSE_CHANNEL | (lua_toboolean(L, 8) ? RUNNEL_QUIET : 0);
  bool is_direct = lua_toboolean(L, 9);
  lua_settop(L, 8);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  if (!conn->nc) return conn_fail(L, NATS_CONNECTION_CLOSED);
  if (!subject_check(L, subject, size, true)) return conn_refuse(L, "%s", lua_tostring(L, -1));
  destroy_unused(conn);

  Sub **at = (Sub **)lua_newuserdatauv(L, sizeof(void *), 1);
  *at = NULL;
  luaL_setmetatable(L, SUB_TYPE);
  lua_pushvalue(L, 5);
  lua_setiuservalue(L, -2, SUB_TAKER);
  Sub *sub = (Sub *)calloc(1, sizeof *sub);
  if (!sub) return luaL_error(L, "not enough memory");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, sub); /* if this raises, a few bytes are lost */
  runnel_port *port = open_port(L, conn->rn, 4, end);
  atomic_init(&sub->holds, 2);
  atomic_init(&sub->delivered, 0);
  atomic_init(&sub->refused, 0);
  atomic_fetch_add(&conn->holds, 1);
  sub->conn = conn;
  sub->port = port;
  sigset_t old;
  conn_block(&old);
  (void)pthread_mutex_lock(&conn->lock);
  conn->delivering++;
  (void)pthread_mutex_unlock(&conn->lock);
  natsStatus s = is_direct ? natsConnection_SubscribeSync(&sub->sub, conn->nc, subject)
                 : queue   ? natsConnection_QueueSubscribe(&sub->sub, conn->nc, subject, queue, on_message, sub)
                           : natsConnection_Subscribe(&sub->sub, conn->nc, subject, on_message, sub);
  conn_unblock(&old);
  if (s == NATS_OK && !is_direct) s = natsSubscription_SetOnCompleteCB(sub->sub, on_complete, sub);
  if (s == NATS_OK) {
    (void)natsSubscription_SetPendingLimits(sub->sub, messages, bytes);
    if (is_direct) open_direct(sub);
    list_append(&conn->subs, &sub->link);
    *at = sub;
    return 1;
  }
  if (sub->sub) natsSubscription_Destroy(sub->sub);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, sub);
  on_complete(sub); /* in place of the thread */
  sub_release(sub); /* NOLINT(clang-analyzer-unix.Malloc): it has two holds */
  return conn_fail(L, s);
}

static Sub *check_sub(lua_State *L) { return *(Sub **)luaL_checkudata(L, 1, SUB_TYPE); }

/* sub:close() */
static int sub_close(lua_State *L) {
  Sub *sub = check_sub(L);
  if (sub) close_sub(sub);
  return 0;
}

/* sub:forget(): closes it; no message comes any more, so that the collector may have the userdata. To be called when
   the channel has closed. */
static int sub_forget(lua_State *L) {
  Sub *sub = check_sub(L);
  if (!sub) return 0;
  close_sub(sub);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, sub);
  return 0;
}

/* sub:drain(ms) -> true | nil, message: the server sends nothing more; what has arrived is delivered, then the channel
   closes */
static int sub_drain(lua_State *L) {
  Sub *sub = check_sub(L);
  if (!sub || !sub->sub) return conn_fail(L, NATS_INVALID_SUBSCRIPTION);
  int64_t ms = conn_ms(L, 2);
  sigset_t old;
  conn_block(&old);
  natsStatus s = natsSubscription_DrainTimeout(sub->sub, ms);
  conn_unblock(&old);
  if (s != NATS_OK) return conn_fail(L, s);
  if (sub->is_direct) {
    (void)pthread_mutex_lock(&sub->conn->direct_lock);
    sub->is_draining = true;
    (void)pthread_mutex_unlock(&sub->conn->direct_lock);
    wakeup_signal(sub->conn->io.wakeup);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* sub:stats() -> delivered, dropped, pending messages, pending bytes */
static int sub_stats(lua_State *L) {
  Sub *sub = check_sub(L);
  int messages = 0, bytes = 0;
  if (!sub) return 0;
  if (sub->sub && natsSubscription_GetPending(sub->sub, &messages, &bytes) != NATS_OK) messages = bytes = 0;
  lua_pushinteger(L, (lua_Integer)atomic_load(&sub->delivered));
  lua_pushinteger(L, sub_dropped(sub));
  lua_pushinteger(L, messages);
  lua_pushinteger(L, bytes);
  return 4;
}

static int sub_gc(lua_State *L) {
  Sub **at = (Sub **)luaL_checkudata(L, 1, SUB_TYPE);
  Sub *sub = *at;
  if (!sub) return 0;
  *at = NULL;
  close_sub(sub);
  sub_release(sub);
  return 0;
}

void sub_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"close", sub_close}, {"drain", sub_drain}, {"forget", sub_forget}, {"stats", sub_stats}, {NULL, NULL}};
  luaL_newmetatable(L, SUB_TYPE);
  lua_pushcfunction(L, sub_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
