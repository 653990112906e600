/* sub.c: subscriptions. libnats has a thread for each of them, which calls `on_message` for one message after the
   other. While the port is full that thread waits, and libnats keeps arriving messages up to the limits of the
   subscription, and drops and counts the rest.

   Direct subscriptions have no thread: the thread that has read their messages (thread.c) takes them at once. That saves
   a thread switch for each batch of messages. But libnats does not pass them the server's answer that a subject has no
   subscription as a message, so that its subject is unknown. */
#include <stdlib.h>

#include "nats/conn.h"

/* Messages between libnats' thread and the channel, at most. */
enum { PORT_LIMIT = 1024 };

/* The same for direct subscriptions, whose messages are posted several at a time: of posts, and of messages in one. */
enum { DIRECT_LIMIT = 64, TOGETHER = 64 };

/* In libnats' thread for the subscription. */
static void on_message(natsConnection *nc, natsSubscription *subscription, natsMsg *msg, void *closure) {
  (void)nc;
  (void)subscription;
  Sub *sub = (Sub *)closure;
  Delivery *delivery = delivery_new(sub, msg, NULL);
  while (delivery && !delivery_post(delivery)) {
    if (sub->conn->rn->port_wait(sub->port) == RUNNEL_OK) continue;
    delivery_drop(delivery);
    return;
  }
}

/* In that thread, or the thread that takes the messages, after the last message. */
static void on_complete(void *closure) {
  Sub *sub = (Sub *)closure;
  Conn *conn = sub->conn;
  (void)conn->rn->port_close(sub->port);
  (void)pthread_mutex_lock(&conn->lock);
  conn->delivering--;
  (void)pthread_cond_broadcast(&conn->changed);
  (void)pthread_mutex_unlock(&conn->lock);
  handle_release(sub);
}

/* ---- direct subscriptions ---- */

/* Posts messages; or keeps them if there is no room, and returns false. */
static bool post(Sub *sub, Delivery *first) {
  sub->full = delivery_post(first) ? NULL : first;
  return !sub->full;
}

/* Takes up to `count` of libnats' messages for the subscription. Returns the first, or NULL if it has ended. */
static Delivery *take_some(Sub *sub, int count) {
  Delivery *first = NULL, *last = NULL;
  while (count-- > 0) {
    natsMsg *msg = NULL;
    natsStatus s = natsSubscription_NextMsg(&msg, sub->sub, 0);
    if (s == NATS_SLOW_CONSUMER) continue; /* an error that is reported once; not a message */
    if (s != NATS_OK && s != NATS_NO_RESPONDERS) break;
    Delivery *delivery = delivery_new(sub, msg, last);
    if (!delivery) continue;
    last = delivery;
    if (!first) first = last;
  }
  return first;
}

/* Takes libnats' messages for the subscription. Returns false if it has ended. */
static bool take_messages(Sub *sub) {
  int count = 0;
  if (sub->full && !post(sub, sub->full)) return true;
  while (natsSubscription_GetPending(sub->sub, &count, NULL) == NATS_OK) {
    if (count == 0) return !sub->is_draining || natsSubscription_DrainCompletionStatus(sub->sub) == NATS_ILLEGAL_STATE;
    Delivery *first = take_some(sub, count < TOGETHER ? count : TOGETHER);
    if (first && !post(sub, first)) return true;
  }
  return false;
}

/* Removes the subscription at *at from Conn.direct; no message of it will be posted any more. */
static void end_direct(Sub **at) {
  Sub *sub = *at;
  *at = sub->next;
  if (sub->full) delivery_drop(sub->full);
  sub->full = NULL;
  on_complete(sub);
}

bool sub_take_all(Conn *conn) {
  bool look_again = false;
  (void)pthread_mutex_lock(&conn->subs_lock);
  for (Sub **at = &conn->direct; *at;) {
    Sub *sub = *at;
    if (take_messages(sub)) {
      look_again = look_again || sub->full || sub->is_draining;
      at = &sub->next;
    } else {
      end_direct(at);
    }
  }
  (void)pthread_mutex_unlock(&conn->subs_lock);
  return look_again;
}

/* The Lua thread ends the subscription. */
static void close_direct(Sub *sub) {
  Conn *conn = sub->conn;
  (void)pthread_mutex_lock(&conn->subs_lock);
  for (Sub **at = &conn->direct; *at; at = &(*at)->next) {
    if (*at != sub) continue;
    end_direct(at);
    break;
  }
  (void)pthread_mutex_unlock(&conn->subs_lock);
}

static void open_direct(Sub *sub) {
  Conn *conn = sub->conn;
  sub->is_direct = true;
  (void)pthread_mutex_lock(&conn->subs_lock);
  sub->next = conn->direct;
  conn->direct = sub;
  (void)pthread_mutex_unlock(&conn->subs_lock);
  thread_wake(&conn->io.thread); /* a message may have arrived before */
}

/* ---- opening and closing ---- */

Sub *sub_find(const Conn *conn, const void *subscription) {
  for (Link *link = conn->subs.first; link; link = list_next(&conn->subs, link)) {
    Sub *sub = CONTAINER_OF(link, Sub, link);
    if (sub->sub == subscription) return sub;
  }
  return NULL;
}

int64_t sub_dropped(Sub *sub) {
  int64_t dropped = 0;
  /* libnats does not know it for a closed subscription. */
  if (sub->sub && natsSubscription_GetDropped(sub->sub, &dropped) == NATS_OK) sub->dropped = dropped;
  return sub->dropped + (int64_t)atomic_load(&sub->refused);
}

/* Ends the subscription. Posted messages are still delivered. Does not raise. */
static void close_sub(Sub *sub) {
  if (!sub->sub) return;
  natsSubscription *subscription = sub->sub;
  if (sub->is_direct) close_direct(sub);
  (void)sub_dropped(sub);
  (void)pthread_mutex_lock(&sub->conn->subs_lock);
  sub->sub = NULL;
  list_remove(&sub->conn->subs, &sub->link);
  (void)pthread_mutex_unlock(&sub->conn->subs_lock);
  (void)sub->conn->rn->port_close(sub->port); /* first: on_message may be waiting */
  /* libnats' reader may use it without a reference of its own, so it is destroyed later: see destroy_unused. */
  (void)natsSubscription_Unsubscribe(subscription);
  sub->ended = subscription;
  (void)handle_hold(sub);
  list_append(&sub->conn->ended_subs, &sub->link);
}

static void destroy_ended(Sub *sub) {
  list_remove(&sub->conn->ended_subs, &sub->link); /* NOLINT(clang-analyzer-unix.Malloc): each is in the list once */
  natsSubscription_Destroy(sub->ended);
  handle_release(sub);
}

void sub_destroy_ended(Conn *conn) {
  while (conn->ended_subs.first) destroy_ended(CONTAINER_OF(conn->ended_subs.first, Sub, link));
}

/* How many messages the connection has received, for all subscriptions together; 0 if unknown. */
static uint64_t count_received(const Conn *conn) {
  natsStatistics *stats = NULL;
  uint64_t count = 0, unused;
  if (natsStatistics_Create(&stats) != NATS_OK) return 0;
  if (natsConnection_GetStats(conn->nc, stats) != NATS_OK ||
      natsStatistics_GetCounts(stats, &count, &unused, &unused, &unused, &unused) != NATS_OK)
    count = 0; /* uncovered: fails only for wrong arguments */
  natsStatistics_Destroy(stats);
  return count;
}

/* Destroys ended subscriptions that libnats' reader cannot use any more. For each message the reader first increments
   its count and then looks the subscription up. So once the count is higher than at the end of a subscription, the
   reader has finished with all messages that may have been for it. */
static void destroy_unused(Conn *conn) {
  if (!conn->ended_subs.first || atomic_load(&conn->outbox.is_lost)) return; /* libnats may hold its lock for long */
  uint64_t count = count_received(conn);
  while (conn->ended_subs.first) { /* in the order of their ends */
    Sub *sub = CONTAINER_OF(conn->ended_subs.first, Sub, link);
    if (sub->ended_at == 0 || sub->ended_at >= count) break; /* NOLINT(clang-analyzer-unix.Malloc): as above */
    destroy_ended(sub);
  }
  for (Link *link = conn->ended_subs.first; link; link = list_next(&conn->ended_subs, link)) {
    Sub *sub = CONTAINER_OF(link, Sub, link);
    if (sub->ended_at == 0) sub->ended_at = count;
  }
}

void sub_close_all(Conn *conn) {
  while (conn->subs.first) close_sub(CONTAINER_OF(conn->subs.first, Sub, link));
}

void sub_unsubscribe_all(Conn *conn) {
  (void)pthread_mutex_lock(&conn->subs_lock);
  for (Link *link = conn->subs.first; link; link = list_next(&conn->subs, link))
    (void)natsSubscription_Unsubscribe(CONTAINER_OF(link, Sub, link)->sub);
  (void)pthread_mutex_unlock(&conn->subs_lock);
}

/* HandleType.close and free */
static void end_sub(lua_State *L, void *object) {
  (void)L;
  close_sub((Sub *)object);
}

static void free_sub(void *object) {
  Sub *sub = (Sub *)object;
  if (sub->port) (void)sub->conn->rn->port_release(sub->port);
  if (sub->conn) handle_release(sub->conn);
  free(sub);
}

static const HandleType sub_type = {SUB_TYPE, end_sub, free_sub};

/* subscribe(subject, queue, channel, taker, messages, bytes, quiet, direct) -> sub | nil, message [, true]: `taker` is
   the metatable of the messages that are put on the channel, or a function that is called with each of them instead.
   `messages` and `bytes` limit what libnats keeps while the channel is full. The channel is closed at the end. A direct
   subscription has no queue, and its taker is a function, which is called with the contents of a message. */
int conn_subscribe(lua_State *L) {
  Conn *conn = (Conn *)handle_check(L, 1, CONN_TYPE);
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

  Sub *sub = (Sub *)handle_new(L, &sub_type, sizeof *sub, 1);
  sub->conn = (Conn *)handle_hold(conn);
  lua_pushvalue(L, 5);
  lua_setiuservalue(L, -2, SUB_TAKER);
  int code = events_open_port(L, conn->rn, 4, is_direct ? DIRECT_LIMIT : PORT_LIMIT, end, &sub->port);
  if (code != RUNNEL_OK) return events_refuse(L, conn->rn, code);
  handle_keep(L, sub);
  (void)handle_hold(sub); /* the receiving thread's hold */
  sigset_t old;
  signals_block(&old);
  (void)pthread_mutex_lock(&conn->lock);
  conn->delivering++;
  (void)pthread_mutex_unlock(&conn->lock);
  io_publish(conn);
  natsStatus s = is_direct ? natsConnection_SubscribeSync(&sub->sub, conn->nc, subject)
                 : queue   ? natsConnection_QueueSubscribe(&sub->sub, conn->nc, subject, queue, on_message, sub)
                           : natsConnection_Subscribe(&sub->sub, conn->nc, subject, on_message, sub);
  signals_restore(&old);
  io_write(conn);
  if (s == NATS_OK && !is_direct && natsSubscription_SetOnCompleteCB(sub->sub, on_complete, sub) != NATS_OK)
    s = NATS_CONNECTION_CLOSED; /* seldom covered: it has ended meanwhile, with the subscription */
  if (s == NATS_OK) {
    (void)natsSubscription_SetPendingLimits(sub->sub, messages, bytes);
    if (is_direct) open_direct(sub);
    (void)pthread_mutex_lock(&conn->subs_lock);
    list_append(&conn->subs, &sub->link);
    (void)pthread_mutex_unlock(&conn->subs_lock);
    return 1;
  }
  if (sub->sub) natsSubscription_Destroy(sub->sub);
  sub->sub = NULL;
  on_complete(sub); /* in place of the thread */
  handle_forget(L, sub);
  return conn_fail(L, s);
}

static Sub *check_sub(lua_State *L) { return (Sub *)handle_get(L, 1, SUB_TYPE); }

/* sub:close() */
static int sub_close(lua_State *L) {
  Sub *sub = check_sub(L);
  if (sub) close_sub(sub);
  return 0;
}

/* sub:forget(): closes it; no message follows, so that the userdata may be collected. Call it when the channel has
   closed. */
static int sub_forget(lua_State *L) {
  Sub *sub = check_sub(L);
  if (!sub) return 0;
  close_sub(sub);
  handle_forget(L, sub);
  return 0;
}

/* sub:drain(ms) -> true | nil, message: the server sends nothing more; what has arrived is delivered, then the channel
   closes */
static int sub_drain(lua_State *L) {
  Sub *sub = check_sub(L);
  if (!sub || !sub->sub) return conn_fail(L, NATS_INVALID_SUBSCRIPTION);
  int64_t ms = conn_ms(L, 2);
  sigset_t old;
  signals_block(&old);
  natsStatus s = natsSubscription_DrainTimeout(sub->sub, ms);
  signals_restore(&old);
  if (s != NATS_OK) return conn_fail(L, s);
  if (sub->is_direct) {
    (void)pthread_mutex_lock(&sub->conn->subs_lock);
    sub->is_draining = true;
    (void)pthread_mutex_unlock(&sub->conn->subs_lock);
    thread_wake(&sub->conn->io.thread);
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

void sub_open(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"close", sub_close}, {"drain", sub_drain}, {"forget", sub_forget}, {"stats", sub_stats}, {NULL, NULL}};
  handle_open(L, &sub_type, methods);
}
