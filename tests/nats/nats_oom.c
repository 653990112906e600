/* nats_oom: messages of runnel.nats are made into tables, and sent with headers, and a connection is refused, while each
   allocation fails in turn, of Lua and of the C module, also in its threads. Nothing may be lost by that: the address
   sanitizer looks for what is not freed, and nats.connect returns. No server is needed. */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "nats/conn.h"

int luaopen_runnel_core(lua_State *L);

static void add(natsMsg *msg, const char *name, const char *value) {
  natsStatus s = natsMsgHeader_Add(msg, name, value);
  assert(s == NATS_OK);
  (void)s;
}

/* (message) -> its table */
static int receive(lua_State *L) {
  message_push_table(L, (natsMsg *)lua_touserdata(L, 1));
  return 1;
}

static int try_receive(lua_State *L) {
  natsMsg *msg = NULL;
  natsStatus s = natsMsg_Create(&msg, "subject", "reply", "data", 4);
  assert(s == NATS_OK);
  (void)s;
  add(msg, "Status", "503");
  add(msg, "Description", "a description that has to be allocated, since it is longer than a short string of Lua");
  add(msg, "Several", "one");
  add(msg, "Several", "two");
  lua_pushcfunction(L, receive);
  lua_pushlightuserdata(L, msg);
  memory_of(L)->armed = true;
  int status = lua_pcall(L, 1, 1, 0);
  memory_of(L)->armed = false;
  natsMsg_Destroy(msg);
  if (status != LUA_OK) return status;
  assert(lua_getfield(L, -1, "status") == LUA_TSTRING && strcmp(lua_tostring(L, -1), "503") == 0);
  assert(lua_getfield(L, -2, "headers") == LUA_TTABLE && lua_getfield(L, -1, "Several") == LUA_TTABLE);
  assert(lua_rawlen(L, -1) == 2);
  return LUA_OK;
}

/* What is sent is kept, as while a connection is lost. */
static int try_send(lua_State *L) {
  Conn conn = {.nc = (natsConnection *)&conn}; /* not NULL, and not used */
  outbox_open(&conn.outbox);
  conn.outbox.limit = 100000;
  atomic_store(&conn.outbox.is_lost, true);
  conn_open(L);
  Conn **at = (Conn **)lua_newuserdatauv(L, sizeof(void *), 1);
  *at = &conn;
  luaL_setmetatable(L, CONN_TYPE);
  int bad = luaL_dostring(L, "return { Number = 123456.5, List = { 'a', 7, 'b' }, Text = 'text' }");
  assert(!bad);
  lua_pushcfunction(L, conn_publish_with);
  lua_pushvalue(L, -3);
  lua_pushliteral(L, "subject");
  lua_pushliteral(L, "data");
  lua_pushliteral(L, "reply");
  lua_pushvalue(L, -6);
  memory_of(L)->armed = true;
  int status = lua_pcall(L, 5, 1, 0);
  memory_of(L)->armed = false;
  assert(status == LUA_OK ? lua_toboolean(L, -1) && conn.outbox.count == 1
                          : status == LUA_ERRMEM && conn.outbox.count == 0);
  if (status == LUA_OK) {
    const char *value = NULL;
    assert(natsMsgHeader_Get(conn.outbox.messages[0], "Number", &value) == NATS_OK && strcmp(value, "123456.5") == 0);
  }
  outbox_free(&conn.outbox);
  *at = NULL; /* nothing for the finalizer */
  return status;
}

/* ---- connecting ---- */

static const char CONNECT[] = "local nats = require 'runnel.nats'\n"
                              "local url = 'nats://127.0.0.1:1'\n"
                              "arm(true)\n"
                              "local ok, conn, err = pcall(nats.connect, url)\n"
                              "arm(false)\n"
                              "return not ok and tostring(conn) or tostring(err)\n";

static int arm(lua_State *L) {
  memory_of(L)->armed = lua_toboolean(L, 1);
  return 0;
}

/* Port 1, where nothing listens. Whatever fails, the call returns: that the connection was refused, or that there was
   no memory; or, where the go block of the port had none and so has ended, which is reported, that nothing can come. */
static int try_connect(lua_State *L) {
  lua_register(L, "arm", arm);
  memory_elsewhere = memory_of(L);
  memory_must(L, luaL_dostring(L, CONNECT));
  memory_elsewhere = NULL;
  const char *said = lua_tostring(L, -1);
  bool is_memory = strstr(said, "memory") != NULL, is_refused = strstr(said, "No server available") != NULL;
  if (!is_memory && !is_refused && !strstr(said, "deadlock")) memory_die("connecting says: %s", said);
  return memory_of(L)->refused ? LUA_ERRMEM : LUA_OK;
}

/* One of the three. */
typedef struct Try {
  int (*run)(lua_State *L); /* returns how the protected call has ended */
  const char *name;
  Memory memory;
} Try;

static void attempt(void *data) {
  static const luaL_Reg modules[] = {
      {"runnel.core", luaopen_runnel_core}, {"runnel.nats.core", luaopen_runnel_nats_core}, {NULL, NULL}};
  Try *try = (Try *)data;
  memory_now(&try->memory, 60, "nats_oom: %s", try->name);
  lua_State *L = memory_open(&try->memory, modules);
  lua_gc(L, LUA_GCSTOP);
  int status = try->run(L);
  if (status != (try->memory.refused ? LUA_ERRMEM : LUA_OK)) memory_die("the call ends with status %d", status);
  memory_close(L);
}

int main(void) {
  natsStatus s = nats_Open(-1);
  assert(s == NATS_OK);
  (void)s;
  Try received = {.run = try_receive, .name = "receiving"}, sent = {.run = try_send, .name = "sending"};
  Try connected = {.run = try_connect, .name = "connecting"};
  uint32_t far = UINT32_MAX;
  uint32_t receives = memory_each(&received.memory, 1, &far, MEMORY_MOST, attempt, &received);
  uint32_t sends = memory_each(&sent.memory, 1, &far, MEMORY_MOST, attempt, &sent);
  uint32_t connects = memory_each(&connected.memory, 1, &far, MEMORY_MOST, attempt, &connected);
  printf("nats_oom: %u failures while messages were received, %u while they were sent, %u while connecting\n",
         (unsigned)receives - 1, (unsigned)sends - 1, (unsigned)connects - 1);
  assert(receives > 6 && sends > 2 && connects > 6);
  nats_Close();
  return 0;
}
