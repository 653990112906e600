/* module.c: runnel.http.curl, the C module under lua/runnel/http/client.lua. Its functions check little: the Lua module
   does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/client.h"

void client_release(Client *client) {
  if (atomic_fetch_sub(&client->holds, 1) > 1) return;
  while (client->nspare > 0) curl_easy_cleanup(client->spare[--client->nspare]);
  thread_close(&client->thread);
  (void)pthread_mutex_destroy(&client->lock);
  free(client);
}

/* open(events, offer, close) -> client: the channel of its port, on which nothing is put; and the functions that offer a
   value to a channel, and close it. */
static int module_open(lua_State *L) {
  lua_settop(L, 3);
  Client **at = (Client **)lua_newuserdatauv(L, sizeof(void *), CLIENT_VALUES);
  *at = NULL;
  luaL_setmetatable(L, CLIENT_TYPE);
  lua_newtable(L);
  lua_setiuservalue(L, 4, CLIENT_TRANSFERS);
  for (int i = 1; i <= 3; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 4, CLIENT_EVENTS + i - 1);
  }
  Client *client = (Client *)calloc(1, sizeof *client);
  if (!client) return luaL_error(L, "not enough memory");
  if (!thread_open(&client->thread)) {
    free(client);
    return luaL_error(L, "cannot make a file descriptor: %s", strerror(errno));
  }
  atomic_init(&client->holds, 1);
  client->rn = (const runnel_functions *)lua_touserdata(L, lua_upvalueindex(1));
  client->wake = (runnel_task){.run = client_wake, .data = client};
  (void)pthread_mutex_init(&client->lock, NULL);
  *at = client;
  lua_pushvalue(L, 4);
  lua_rawsetp(L, LUA_REGISTRYINDEX, client); /* so that the state keeps it, and events find it */
  return 1;
}

static int client_gc(lua_State *L) {
  Client **at = (Client **)luaL_checkudata(L, 1, CLIENT_TYPE);
  Client *client = *at;
  if (!client) return 0;
  *at = NULL;
  (void)client->rn->task_cancel(&client->wake);
  thread_end(&client->thread);
  events_end(client);
  if (client->port) (void)client->rn->port_release(client->port); /* which closes it */
  client->port = NULL;
  client_release(client);
  return 0;
}

void client_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"close_idle", client_close_idle}, {"start", transfer_start}, {NULL, NULL}};
  luaL_newmetatable(L, CLIENT_TYPE);
  lua_pushcfunction(L, client_gc);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

/* libcurl's own preparation, once in a process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void prepare(void) { (void)curl_global_init(CURL_GLOBAL_ALL); }

int luaopen_runnel_http_curl(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"cookies", cookies_new}, {"is_cookies", cookies_is}, {"open", module_open}, {NULL, NULL}};
  luaL_checkversion(L);
  const runnel_functions *rn = runnel_get_functions(L);
  (void)pthread_once(&once, prepare);
  client_open(L);
  calls_open(L);
  cookies_open(L);
  luaL_newlibtable(L, functions);
  lua_pushlightuserdata(L, (void *)(uintptr_t)rn); /* only ever read through a const pointer */
  luaL_setfuncs(L, functions, 1);
  lua_pushinteger(L, (lua_Integer)curl_version_info(CURLVERSION_NOW)->version_num);
  lua_setfield(L, -2, "version"); /* libcurl's, as 0x075801 for 7.88.1 */
  options_push(L);
  lua_setfield(L, -2, "options");
  options_push_limits(L);
  lua_setfield(L, -2, "limits");
  return 1;
}
