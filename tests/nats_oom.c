/* nats_oom: messages of runnel.nats are made into tables, and sent with headers, while each allocation of Lua fails in
   turn. Nothing may be lost by that: the address sanitizer looks for what is not freed. No server is needed. */
#include <assert.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nats/conn.h"

static int left; /* allocations until one fails; negative: none does */

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size) {
  (void)ud;
  (void)old_size;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  if (left == 0) return NULL; /* also in Lua's second attempt, after a collection */
  if (left > 0) left--;
  return realloc(block, new_size);
}

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

static void try_receive(lua_State *L) {
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
  int status = lua_pcall(L, 1, 1, 0);
  natsMsg_Destroy(msg);
  left = -1;
  assert(status == LUA_OK || status == LUA_ERRMEM);
  if (status != LUA_OK) return;
  assert(lua_getfield(L, -1, "status") == LUA_TSTRING && strcmp(lua_tostring(L, -1), "503") == 0);
  assert(lua_getfield(L, -2, "headers") == LUA_TTABLE && lua_getfield(L, -1, "Several") == LUA_TTABLE);
  assert(lua_rawlen(L, -1) == 2);
}

/* What is sent is kept, as while a connection is lost. */
static void try_send(lua_State *L) {
  Conn conn = {.nc = (natsConnection *)&conn}; /* not NULL, and not used */
  outbox_open(&conn.outbox);
  conn.outbox.limit = 100000;
  atomic_store(&conn.outbox.is_lost, true);
  int may_fail = left;
  left = -1;
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
  left = may_fail;
  int status = lua_pcall(L, 5, 1, 0);
  left = -1;
  assert(status == LUA_OK ? lua_toboolean(L, -1) && conn.outbox.count == 1
                          : status == LUA_ERRMEM && conn.outbox.count == 0);
  if (status == LUA_OK) {
    const char *value = NULL;
    assert(natsMsgHeader_Get(conn.outbox.messages[0], "Number", &value) == NATS_OK && strcmp(value, "123456.5") == 0);
  }
  outbox_free(&conn.outbox);
  *at = NULL; /* nothing for the finalizer */
  if (status == LUA_OK) lua_settop(L, 1);
}

/* Runs `attempt` with one failure after the other, until there is none. Returns how many there were. */
static int try_all(void (*attempt)(lua_State *L)) {
  for (int failures = 0;; failures++) {
    left = -1;
    lua_State *L = lua_newstate(allocate, NULL);
    assert(L);
    luaL_openlibs(L);
    lua_gc(L, LUA_GCSTOP);
    left = failures;
    lua_pushboolean(L, 1);
    attempt(L);
    bool failed = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "not enough memory") == 0;
    lua_close(L);
    if (!failed) return failures;
  }
}

int main(void) {
  natsStatus s = nats_Open(-1);
  assert(s == NATS_OK);
  (void)s;
  int received = try_all(try_receive), sent = try_all(try_send);
  printf("nats_oom: %d failures while messages were received, %d while they were sent\n", received, sent);
  assert(received > 5 && sent > 1);
  nats_Close();
  return 0;
}
