/* nats_oom: messages of runnel.nats are made into tables, and sent with headers, while each allocation of Lua fails in
   turn. Nothing may be lost by that: the address sanitizer looks for what is not freed. No server is needed. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "../memory.h"
#include "nats/conn.h"

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

/* One of the two. */
typedef struct Try {
  int (*run)(lua_State *L); /* returns how the protected call has ended */
  const char *name;
  Memory memory;
} Try;

static void attempt(void *data) {
  static const luaL_Reg no_modules[] = {{NULL, NULL}};
  Try *try = (Try *)data;
  memory_now(&try->memory, 60, "nats_oom: %s", try->name);
  lua_State *L = memory_open(&try->memory, no_modules);
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
  uint32_t far = UINT32_MAX;
  uint32_t receives = memory_each(&received.memory, 1, &far, MEMORY_MOST, attempt, &received);
  uint32_t sends = memory_each(&sent.memory, 1, &far, MEMORY_MOST, attempt, &sent);
  printf("nats_oom: %u failures while messages were received, %u while they were sent\n", (unsigned)receives - 1,
         (unsigned)sends - 1);
  assert(receives > 6 && sends > 2);
  nats_Close();
  return 0;
}
