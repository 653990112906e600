/* module.c: runnel.http.curl, the C module under lua/runnel/http/client.lua. Its functions check little: the Lua module
   does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/client/client.h"

/* HandleType.close */
static void close_client(lua_State *L, void *object) {
  Client *client = (Client *)object;
  (void)L;
  (void)client->rn->task_cancel(&client->wake);
  (void)client->rn->task_cancel(&client->rest);
  thread_end(&client->thread);
  events_close(&client->events);
}

/* HandleType.free */
static void free_client(void *object) {
  Client *client = (Client *)object;
  while (client->nspare > 0) curl_easy_cleanup(client->spare[--client->nspare]);
  thread_close(&client->thread);
  events_free(&client->events);
  (void)pthread_mutex_destroy(&client->lock);
  (void)pthread_mutex_destroy(&client->works);
  free(client);
}

static const HandleType client_type = {CLIENT_TYPE, close_client, free_client};

/* open(events, offer, close) -> client: the channel of its port, which stays empty; and the functions that offer a
   value to a channel, and close it. */
static int module_open(lua_State *L) {
  lua_settop(L, 3);
  const runnel_functions *rn = runnel_get_functions(L);
  Client *client = (Client *)handle_new(L, &client_type, sizeof *client, CLIENT_VALUES);
  client->rn = rn;
  client->wake = (runnel_task){.run = client_wake, .data = client};
  client->rest = (runnel_task){.run = client_rest, .data = client};
  (void)pthread_mutex_init(&client->works, NULL);
  (void)pthread_mutex_init(&client->lock, NULL);
  events_init(&client->events, rn, client, client_deliver, &client->thread);
  if (!thread_open(&client->thread)) return luaL_error(L, "cannot make a file descriptor: %s", strerror(errno));
  lua_newtable(L);
  lua_setiuservalue(L, 4, CLIENT_TRANSFERS);
  for (int i = 1; i <= 3; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 4, CLIENT_EVENTS + i - 1);
  }
  handle_keep(L, client);
  return 1;
}

/* is_plain(url) -> whether it begins with http:// or https://, in lower case, and is ASCII without a zero byte. As
   patterns of Lua, this would be a fifth of what Lua does for a request. */
static int is_plain(lua_State *L) {
  size_t size, n = 0;
  const char *url = luaL_checklstring(L, 1, &size);
  while (url[n] && (unsigned char)url[n] < 128) n++;
  lua_pushboolean(L, n == size && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0));
  return 1;
}

/* libcurl's own initialization, once in a process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void prepare(void) { (void)curl_global_init(CURL_GLOBAL_ALL); }

int luaopen_runnel_http_curl(lua_State *L) {
  static const luaL_Reg functions[] = {{"cookies", cookies_new},      {"crc32", gzip_crc32},
                                       {"deflater", gzip_deflater},   {"headers", response_headers},
                                       {"inflater", gzip_inflater},   {"is_cookies", cookies_is},
                                       {"is_plain", is_plain},        {"open", module_open},
                                       {"resolve", redirect_resolve}, {NULL, NULL}};
  luaL_checkversion(L);
  static const luaL_Reg methods[] = {
      {"close_idle", client_close_idle}, {"limit", client_limit}, {"start", transfer_start}, {NULL, NULL}};
  (void)runnel_get_functions(L);
  (void)pthread_once(&once, prepare);
  handle_open(L, &client_type, methods);
  calls_open(L);
  cookies_open(L);
  gzip_open(L);
  luaL_newlib(L, functions);
  lua_pushinteger(L, (lua_Integer)curl_version_info(CURLVERSION_NOW)->version_num);
  lua_setfield(L, -2, "version"); /* libcurl's, as 0x075801 for 7.88.1 */
  lua_pushliteral(L, USER_AGENT);
  lua_setfield(L, -2, "user_agent");
  options_push(L);
  lua_setfield(L, -2, "options");
  settings_push_limits(L);
  lua_setfield(L, -2, "limits");
  return 1;
}
