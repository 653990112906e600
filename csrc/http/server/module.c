/* module.c: runnel.http.core, the C module under lua/runnel/http/server.lua: servers, and requests answered by go
   blocks. Its functions check little: the Lua module does. */
#include "http/server/server.h"

#define SERVER_TYPE "runnel.http.server"

/* The user value of a server: the handler of its events. */
enum { SERVER_HANDLER = 1 };

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_http_core(lua_State *L);

/* Pushes why the response of a request was cut. */
static void push_cut(lua_State *L, const Request *request) {
  int error = request->part_error; /* set before the event was added, and then no more */
  const char *why = "the file has become shorter while it was sent";
  if (error >= 0) why = strerror(error); /* uncovered: the disk has failed */
  lua_pushfstring(L, "%s: %s", request->target, why);
}

/* Events.deliver: calls the handler with each request that has events. */
static int deliver(lua_State *L) {
  Server *server = (Server *)lua_touserdata(L, 1);
  if (!handle_find(L, server)) return 0;
  lua_getiuservalue(L, 2, SERVER_HANDLER);
  Handle **box = handle_push(L, &request_type), *object;
  unsigned events = 0;
  while ((object = (Handle *)events_take(&server->events, &events)) != NULL) {
    bool is_new = events & EVENT_NEW;
    if (is_new) *box = object;   /* the userdata gets the hold */
    else handle_release(object); /* its userdata has another hold, if it is still needed */
    lua_pushvalue(L, 3);
    if (events & EVENT_DRAINED) lua_pushboolean(L, false);
    else lua_pushlightuserdata(L, object);
    lua_pushinteger(L, events);
    if (is_new) lua_pushvalue(L, 4);
    else lua_pushnil(L);
    if (events & EVENT_CUT) push_cut(L, (Request *)object);
    lua_call(L, events & EVENT_CUT ? 4 : 3, 0);
    if (!is_new) continue;
    box = handle_push(L, &request_type);
    lua_replace(L, 4);
  }
  return 0;
}

/* HandleType.close */
static void close_server(lua_State *L, void *object) {
  Server *server = (Server *)object;
  server_stop(server);
  handle_forget(L, server);
}

static const HandleType server_type = {SERVER_TYPE, close_server, server_free};

/* A field of the settings, the table at index 1. */
static lua_Number number_of(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  lua_Number n = luaL_checknumber(L, -1);
  lua_pop(L, 1);
  return n;
}

/* What stands for a larger integer in a field: two billions are as many as none could count. */
enum { MOST = INT32_MAX };

/* A field with an integer of any size. */
static int int_of(lua_State *L, const char *name) {
  lua_Number n = number_of(L, name);
  return n < (lua_Number)MOST ? (int)n : MOST;
}

/* A field with a number of bytes of any size. */
static int64_t bytes_of(lua_State *L, const char *name) {
  lua_Number n = number_of(L, name);
  return n < (lua_Number)(INT64_MAX / 2) ? (int64_t)n : INT64_MAX / 2;
}

/* A field in ms, converted to ns. A longer time than 70 years stands for none that ends. */
static int64_t time_of(lua_State *L, const char *name) {
  static const int64_t longest = INT64_MAX / 4; /* it can be added to a time */
  lua_Number ns = number_of(L, name) * (lua_Number)CLOCK_MS;
  return ns < (lua_Number)longest ? (int64_t)ns : longest;
}

static bool has(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  bool is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

static Limits read_limits(lua_State *L) {
  lua_Number rate = number_of(L, "min_rate");
  return (Limits){.connections = (uint32_t)int_of(L, "max_connections"),
                  .per_address = (uint32_t)int_of(L, "max_per_address"),
                  .counts_local = has(L, "counts_local"),
                  .requests = (uint32_t)int_of(L, "max_requests"),
                  .header = (size_t)int_of(L, "max_header"),
                  .body = (uint64_t)bytes_of(L, "max"),
                  .head = time_of(L, "header_timeout"),
                  .idle = time_of(L, "idle"),
                  .rate = rate > 0 ? (int64_t)((lua_Number)CLOCK_MS * 1000 / rate) : 0,
                  .request = time_of(L, "timeout")};
}

/* start(settings, channel, handler, context) -> server, port or path | nil, message. `settings` has all options of
   http.serve. The handler must not park. It is called with a light userdata that identifies a request, its events, for a
   new request its userdata, and for EVENT_CUT a message; and with false when the server has drained. `context`: nil, or
   a runnel.tls.core context. */
static int start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 4);
  lua_getfield(L, 1, "host");
  lua_getfield(L, 1, "path");
  Place place = {.address = luaL_checkstring(L, 5),
                 .path = luaL_optstring(L, 6, NULL),
                 .mode = int_of(L, "mode"),
                 .port = int_of(L, "port"),
                 .fd = int_of(L, "fd"),
                 .shares = has(L, "reuseport")};
  Limits limits = read_limits(L);
  Server *server = (Server *)handle_new(L, &server_type, sizeof *server, 1);
  server->rn = runnel_get_functions(L);
  (void)pthread_mutex_init(&server->lock, NULL);
  (void)pthread_cond_init(&server->returned, NULL);
  events_init(&server->events, server->rn, server, deliver, &server->thread);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, SERVER_HANDLER);
  int code = events_open(L, &server->events, 2, RUNNEL_LEAVE_OPEN);
  if (code != RUNNEL_OK) return events_refuse(L, server->rn, code);
  handle_keep(L, server); /* until it is stopped */
  Hub *hub = &server->engine.hub;
  hub->limits = limits;
  hub->lib = lua_isnil(L, 4) ? NULL : tls_get_functions(L);
  if (hub->lib) {
    hub->context = hub->lib->hold(L, 4);
  } else if (!lua_isnil(L, 4)) {
    /* uncovered: both are of the same build */
    return luaL_error(L, "runnel.tls.core was built for another release of runnel: run make again");
  }
  char why[256];
  if (server_start(server, &place, why, sizeof why)) {
    const Listening *own = &server->engine.own;
    if (own->port) lua_pushinteger(L, own->port);
    else lua_pushstring(L, own->path);
    return 2;
  }
  handle_close(L, -1, SERVER_TYPE);
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* server:stop(): ends all connections; also called at the end of the Lua state. */
static int stop(lua_State *L) {
  handle_close(L, 1, SERVER_TYPE);
  return 0;
}

/* server:drain(): accepts no more connections, and ends each one after its request. */
static int drain(lua_State *L) {
  Server *server = (Server *)handle_check(L, 1, SERVER_TYPE);
  atomic_store(&server->drains, true);
  thread_wake(&server->thread);
  return 0;
}

/* server:tally() -> see tally_push */
static int tally(lua_State *L) {
  Server *server = (Server *)handle_check(L, 1, SERVER_TYPE);
  server_lock(server);
  Tally copy = server->tally;
  server_unlock(server);
  tally_push(L, &copy);
  return 1;
}

int luaopen_runnel_http_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", start}, {NULL, NULL}};
  static const luaL_Reg servers[] = {{"stop", stop}, {"drain", drain}, {"tally", tally}, {NULL, NULL}};
  luaL_checkversion(L);
  (void)runnel_get_functions(L);
  handle_open(L, &server_type, servers);
  handle_open(L, &request_type, answer_methods);
  folder_init(L);
  luaL_newlib(L, functions);
  folder_push_open(L);
  lua_setfield(L, -2, "open");
  return 1;
}
