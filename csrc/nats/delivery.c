/* delivery.c: messages on their way from the receiving thread, through a port, to Lua. */
#include <stdlib.h>
#include <string.h>

#include "nats/conn.h"

/* The limit of the bytes of messages that Lua has and that wait to be destroyed. */
enum { SPENT_BYTES = 64 * 1024 };

/* A message on its way. Messages that were read together are posted together: so Lua is woken once for them, and sends
   the resulting messages together. */
struct Delivery {
  natsMsg *msg;   /* owned; NULL: the subject has no subscription */
  Sub *sub;       /* with a hold */
  int64_t came;   /* when it has arrived, in ms of the monotonic clock */
  Delivery *next; /* the next one that is posted with it; or NULL */
};

static void drop(void *data) {
  Delivery *delivery = (Delivery *)data;
  while (delivery) {
    Delivery *next = delivery->next;
    natsMsg_Destroy(delivery->msg);
    handle_release(delivery->sub);
    free(delivery);
    delivery = next;
  }
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
  handle_release(delivery->sub);
  free(delivery);
}

static bool is_ack(const char *reply) { return reply && strncmp(reply, "$JS.ACK.", 8) == 0; }

/* The ms since a message arrived: while Lua computed, the time for its acknowledgement may have run out. */
static void push_age(lua_State *L, const Delivery *delivery) {
  lua_pushinteger(L, (lua_Integer)(clock_ms() - delivery->came));
}

/* Pushes the arguments for the taker of a direct subscription (runnel.EngineTaker in engine.lua), and returns their
   number. */
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
  const char *reply = natsMsg_GetReply(msg), *status = NULL, *left = NULL;
  lua_pushlstring(L, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
  lua_pushstring(L, reply); /* nil for NULL */
  if (is_ack(reply)) {
    push_age(L, delivery);
    lua_pushstring(L, natsMsg_GetSubject(msg));
    lua_pushnil(L);
    lua_pushnil(L);
    if (message_push_headers(L, msg)) return 7;
    lua_pop(L, 2);
    return 4;
  }
  lua_pushnil(L);
  lua_pushstring(L, natsMsg_GetSubject(msg));
  if (natsMsgHeader_Get(msg, "Status", &status) != NATS_OK) return 4;
  lua_pushstring(L, status);
  if (natsMsgHeader_Get(msg, "Nats-Pending-Messages", &left) != NATS_OK) return 5;
  lua_pushstring(L, left);
  return 6;
}

/* Protected: (delivery) -> message, or nothing if a function has received it */
static int make(lua_State *L) {
  const Delivery *delivery = (const Delivery *)lua_touserdata(L, 1);
  if (handle_find(L, delivery->sub)) lua_getiuservalue(L, -1, SUB_TAKER);
  else lua_pushnil(L); /* seldom covered: a finalizer has closed the channel */
  if (delivery->sub->is_direct) {
    if (lua_isfunction(L, -1)) lua_call(L, push_parts(L, delivery), 0);
    return 0;
  }
  message_push_table(L, delivery->msg);
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

/* runnel_push. Only messages for functions are posted together. If several functions raise, the last error counts. */
static int push(lua_State *L, void *data) {
  int top = lua_gettop(L), status = LUA_OK;
  Delivery *delivery = (Delivery *)data;
  while (delivery) {
    Delivery *next = delivery->next;
    lua_pushcfunction(L, make);
    lua_pushlightuserdata(L, delivery);
    int last = lua_pcall(L, 1, LUA_MULTRET, 0);
    spend(delivery);
    delivery = next;
    if (last == LUA_OK) continue;
    status = last;
    lua_insert(L, top + 1);
    lua_settop(L, top + 1);
  }
  if (status != LUA_OK) return lua_error(L);
  return lua_gettop(L) - top;
}

Delivery *delivery_new(Sub *sub, natsMsg *msg, Delivery *before) {
  Delivery *delivery = (Delivery *)malloc(sizeof *delivery);
  if (delivery) {
    *delivery = (Delivery){.msg = msg, .sub = (Sub *)handle_hold(sub), .came = clock_ms()};
    if (before) before->next = delivery;
    atomic_fetch_add(&sub->delivered, 1);
    return delivery;
  }
  atomic_fetch_add(&sub->refused, 1); /* uncovered: only when memory runs out */
  natsMsg_Destroy(msg);
  return NULL;
}

void delivery_drop(Delivery *first) {
  for (const Delivery *delivery = first; delivery; delivery = delivery->next)
    atomic_fetch_sub(&delivery->sub->delivered, 1);
  drop(first);
}

bool delivery_post(Delivery *first) {
  Sub *sub = first->sub;
  int code = sub->conn->rn->post_call(sub->port, push, drop, first);
  if (code == RUNNEL_OK) return true;
  if (code == RUNNEL_FULL) return false;
  /* seldom covered: the subscription was closed meanwhile, or memory runs out */
  if (code == RUNNEL_NO_MEMORY) atomic_fetch_add(&sub->refused, 1);
  delivery_drop(first);
  return true;
}
