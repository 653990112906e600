/* module.c: runnel.monitor.core, the C module of lua/runnel/monitor.lua: starts and stops the server. */
#include <stdio.h>
#include <stdlib.h>

#include "monitor/server.h"
#include "monitor/summary.h"

#define SERVER_TYPE "runnel.monitor"

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_monitor_core(lua_State *L);

static Server *running(lua_State *L) { return (Server *)handle_check(L, 1, SERVER_TYPE); }

/* HandleType.close */
static void close_server(lua_State *L, void *object) {
  (void)L;
  server_stop((Server *)object);
}

static const HandleType server_type = {SERVER_TYPE, close_server, server_free};

/* start(watch, port, control, program[, period]) -> server, url; or nil and why not */
static int start(lua_State *L) {
  Watch *watch = (Watch *)lua_touserdata(L, 1);
  char why[256];
  luaL_checktype(L, 1, LUA_TUSERDATA);
  if (lua_rawlen(L, 1) != sizeof(Watch) || watch->release != WATCH_RELEASE)
    return luaL_error(L, "runnel.monitor.core was built for another release of runnel: run make again");
  int port = (int)luaL_checkinteger(L, 2);
  bool control = lua_toboolean(L, 3);
  const char *program = luaL_checkstring(L, 4);
  int period = (int)luaL_optinteger(L, 5, SERVER_PERIOD);
  Server *server = (Server *)handle_new(L, &server_type, sizeof *server, 1);
  lua_pushvalue(L, 1); /* keeps the Watch */
  lua_setiuservalue(L, -2, 1);
  if (server_start(server, watch, port, control, program, period, why)) {
    lua_pushstring(L, server->url);
    return 2;
  }
  handle_close(L, -1, SERVER_TYPE);
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* why(server, text): what ends the program; pages show it when it has ended. */
static int why(lua_State *L) {
  Server *server = (Server *)handle_get(L, 1, SERVER_TYPE);
  if (server) (void)snprintf(server->why, sizeof server->why, "%s", luaL_checkstring(L, 2));
  return 0;
}

/* stop(server[, why]): ends the pages' streams, the thread and the server; also at the end of the Lua state. Pages show
   `why`. */
static int stop(lua_State *L) {
  if (lua_isstring(L, 2)) (void)why(L);
  handle_close(L, 1, SERVER_TYPE);
  return 0;
}

/* filling(server) -> the Snapshot to fill, a light userdata; or nil if none is wanted */
static int filling(lua_State *L) {
  Snapshot *snapshot = desk_filling(&running(L)->site.desk);
  if (snapshot) lua_pushlightuserdata(L, snapshot);
  else lua_pushnil(L);
  return 1;
}

/* publish(server): that Snapshot is complete. */
static int publish(lua_State *L) {
  desk_publish(&running(L)->site.desk);
  return 0;
}

/* ask(server): the Snapshot is not complete: the watcher is called again soon. */
static int ask(lua_State *L) {
  Watch *watch = running(L)->site.desk.watch;
  watch->ask(watch);
  return 0;
}

/* remind(server): the watcher is called again within a second, even if no page is open. */
static int remind(lua_State *L) {
  atomic_store(&running(L)->site.desk.reminds, true);
  return 0;
}

/* command(server) -> number, what, id, type, text of the next command; or nothing */
static int command(lua_State *L) {
  luaL_checkstack(L, 5, NULL);
  Command *c = desk_take(&running(L)->site.desk);
  if (!c) return 0;
  Command copy = *c;
  free(c);
  lua_pushinteger(L, copy.number);
  lua_pushstring(L, copy.what);
  lua_pushstring(L, copy.id);
  lua_pushstring(L, copy.type);
  lua_pushstring(L, copy.text);
  return 5;
}

/* result(server, number, ok, lines...): the result of a command */
static int result(lua_State *L) {
  Server *server = running(L);
  lua_Integer number = luaL_checkinteger(L, 2);
  Text text = {0};
  summary_result(L, &text);
  text_add(&text, "", 1);
  if (!text.failed) desk_result(&server->site.desk, number, bytes_first(&text.bytes));
  text_free(&text);
  return 0;
}

int luaopen_runnel_monitor_core(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"ask", ask},       {"command", command}, {"filling", filling}, {"publish", publish}, {"remind", remind},
      {"result", result}, {"start", start},     {"stop", stop},       {"why", why},         {NULL, NULL}};
  luaL_checkversion(L);
  handle_open(L, &server_type, (const luaL_Reg[]){{NULL, NULL}});
  luaL_newlib(L, functions);
  return 1;
}
