/* module.c: runnel.httpd.core, the C module under lua/runnel/http/server.lua: servers, and requests answered by go
   blocks. Its functions check little: the Lua module does. */
#include <stdio.h>

#include "base/clock.h"
#include "http/server/server.h"

#define SERVER_TYPE "runnel.http.server"

/* The user value of a server: the handler of its events. */
enum { SERVER_HANDLER = 1 };

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_httpd_core(lua_State *L);

/* Wakes the thread once the ready go blocks have run, or at once if no scheduler runs. */
static void wake_later(lua_State *L, Server *server) {
  if (thread_ends(&server->thread)) return;
  if (server->rn->task_add(L, &server->task) != RUNNEL_OK) thread_wake(&server->thread);
}

/* ---- events ---- */

/* Events.deliver: calls the handler with each request that has events. */
static int deliver(lua_State *L) {
  Server *server = (Server *)lua_touserdata(L, 1);
  if (!handle_find(L, server)) return 0;
  lua_getiuservalue(L, 2, SERVER_HANDLER);
  Handle **box = handle_push(L, &request_type), *object;
  unsigned events = 0;
  while ((object = (Handle *)events_take(&server->events, &events)) != NULL) {
    bool is_new = events & EVENT_NEW;
    if (is_new) *box = object;   /* with the hold */
    else handle_release(object); /* its userdata has another hold, if it is still needed */
    lua_pushvalue(L, 3);
    if (events & EVENT_DRAINED) lua_pushboolean(L, false);
    else lua_pushlightuserdata(L, object);
    lua_pushinteger(L, events);
    if (is_new) lua_pushvalue(L, 4);
    else lua_pushnil(L);
    lua_call(L, 3, 0);
    if (!is_new) continue;
    box = handle_push(L, &request_type);
    lua_replace(L, 4);
  }
  return 0;
}

/* ---- servers ---- */

/* HandleType.close */
static void close_server(lua_State *L, void *object) {
  Server *server = (Server *)object;
  server_stop(server);
  handle_forget(L, server);
}

static const HandleType server_type = {SERVER_TYPE, close_server, server_free};

static int64_t ns_at(lua_State *L, int at) { return (int64_t)(luaL_checknumber(L, at) * (lua_Number)CLOCK_MS); }

/* start(address, port, connections, header, body, idle, request, channel, handler) -> server, port | nil, message. The
   handler, which must not park, is called with a light userdata that stands for a request, its events, and, if it is
   new, its userdata; and with false when the server has drained. */
static int start(lua_State *L) {
  const runnel_functions *rn = runnel_get_functions(L);
  const char *address = luaL_checkstring(L, 1);
  int number = (int)luaL_checkinteger(L, 2);
  Limits limits = {.connections = (unsigned)luaL_checkinteger(L, 3),
                   .header = (size_t)luaL_checkinteger(L, 4),
                   .body = (uint64_t)luaL_checkinteger(L, 5),
                   .idle = ns_at(L, 6),
                   .request = ns_at(L, 7)};
  luaL_checktype(L, 9, LUA_TFUNCTION);
  Server *server = (Server *)handle_new(L, &server_type, sizeof *server, 1);
  server->rn = rn;
  (void)pthread_mutex_init(&server->lock, NULL);
  events_init(&server->events, rn, server, deliver, NULL);
  lua_pushvalue(L, 9);
  lua_setiuservalue(L, -2, SERVER_HANDLER);
  int code = events_open(L, &server->events, 8, RUNNEL_LEAVE_OPEN);
  if (code != RUNNEL_OK) return luaL_error(L, "cannot open a port: %s", rn->strerror(code));
  handle_keep(L, server); /* until it is stopped */
  char why[256];
  if (server_start(server, &limits, address, number, why, sizeof why)) {
    lua_pushinteger(L, server->number);
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

/* server:quiesce(): accepts no more connections, and closes those without a request. */
static int quiesce(lua_State *L) {
  Server *server = (Server *)handle_check(L, 1, SERVER_TYPE);
  (void)pthread_mutex_lock(&server->lock);
  server->quiesces = true;
  (void)pthread_mutex_unlock(&server->lock);
  thread_wake(&server->thread);
  return 0;
}

/* ---- requests ---- */

static Request *request_at(lua_State *L) { return (Request *)handle_check(L, 1, REQUEST_TYPE); }

/* request:head() -> method, target, address, whether there may be a body */
static int head(lua_State *L) {
  const Request *request = request_at(L);
  lua_pushstring(L, request->head);
  lua_pushstring(L, request->target);
  lua_pushstring(L, request->address);
  lua_pushboolean(L, request->has_body);
  return 4;
}

/* request:headers() -> a list of alternating names and values */
static int headers(lua_State *L) {
  const Request *request = request_at(L);
  const char *at = request->head + strlen(request->head) + 1;
  lua_createtable(L, (int)request->nheaders * 2, 0);
  for (size_t i = 1; i <= 2 * request->nheaders; i++) {
    lua_pushstring(L, at);
    lua_rawseti(L, -2, (lua_Integer)i);
    at += strlen(at) + 1;
  }
  return 1;
}

/* request:read(max) -> bytes of the body, at most `max`; or false after the last; or nothing: EVENT_BODY will follow.
   The body of a request that the server has ended never ends: its go block is cancelled. */
static int read_body(lua_State *L) {
  Request *request = request_at(L);
  Server *server = request->server;
  size_t max = (size_t)luaL_checkinteger(L, 2);
  if (max > BODY_WINDOW) max = BODY_WINDOW;
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, max);
  (void)pthread_mutex_lock(&server->lock);
  size_t n = bytes_take(&request->in, to, max);
  bool is_end = n == 0 && request->is_whole && !request->why;
  if (n == 0 && !is_end) request->wants_body = true;
  bool resumes = request->is_suspended && !request->is_whole && bytes_length(&request->in) < BODY_WINDOW / 2;
  if (resumes) request_resume(request);
  (void)pthread_mutex_unlock(&server->lock);
  if (resumes) wake_later(L, server);
  if (is_end) lua_pushboolean(L, false);
  else if (n) luaL_pushresultsize(&buffer, n);
  else return 0;
  return 1;
}

/* Adds the headers at index `at` and above, alternating names and values, to a response. If one is refused, frees the
   response, and pushes false and its name. */
static bool add_headers(lua_State *L, int at, struct MHD_Response *response) {
  for (int top = lua_gettop(L); at < top; at += 2) {
    if (MHD_add_response_header(response, lua_tostring(L, at), lua_tostring(L, at + 1)) == MHD_YES) continue;
    MHD_destroy_response(response);
    lua_pushboolean(L, false);
    lua_pushvalue(L, at);
    return false;
  }
  return true;
}

/* Checks that all arguments from index `at` on are strings: that they cannot raise an error later. */
static void check_strings(lua_State *L, int at) {
  for (int top = lua_gettop(L); at <= top; at++) luaL_checktype(L, at, LUA_TSTRING);
}

/* Gives the request its response. */
static int give(lua_State *L, Request *request, struct MHD_Response *response, unsigned status, bool is_done) {
  Server *server = request->server;
  (void)pthread_mutex_lock(&server->lock);
  if (server->quiesces) (void)MHD_add_response_header(response, "Connection", "close");
  if (is_done) request->is_done = true;
  answer_with(request, status, response);
  (void)pthread_mutex_unlock(&server->lock);
  wake_later(L, server);
  lua_pushboolean(L, true);
  return 1;
}

/* request:respond(status, body, name, value, ...) -> true | false, the name of a header that is not allowed. A request
   that the server has ended stays as it is. */
static int respond(lua_State *L) {
  Request *request = request_at(L);
  unsigned status = (unsigned)luaL_checkinteger(L, 2);
  size_t size;
  const char *body = luaL_checklstring(L, 3, &size);
  check_strings(L, 4);
  luaL_checkstack(L, 2, NULL);
  struct MHD_Response *response = MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
  if (!response) return luaL_error(L, "not enough memory");
  if (!add_headers(L, 4, response)) return 2;
  return give(L, request, response, status, true);
}

/* request:stream(status, size, name, value, ...) -> true | false, name: as `respond`, but the body is written later.
   `size` is its length in bytes, or negative if that is unknown. */
static int stream(lua_State *L) {
  Request *request = request_at(L);
  unsigned status = (unsigned)luaL_checkinteger(L, 2);
  lua_Integer size = luaL_checkinteger(L, 3);
  check_strings(L, 4);
  luaL_checkstack(L, 2, NULL);
  struct MHD_Response *response = answer_stream(request, size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size);
  if (!response) return luaL_error(L, "not enough memory");
  if (!add_headers(L, 4, response)) return 2;
  return give(L, request, response, status, false);
}

/* request:write(bytes) -> true | false: wait for EVENT_ROOM before the next write */
static int write_body(lua_State *L) {
  Request *request = request_at(L);
  Server *server = request->server;
  size_t size;
  const char *bytes = luaL_checklstring(L, 2, &size);
  (void)pthread_mutex_lock(&server->lock);
  bool ok = request->why || bytes_add(&request->out, bytes, size);
  bool has_room = bytes_length(&request->out) < BODY_WINDOW;
  if (!has_room) request->wants_room = true;
  request_resume(request);
  (void)pthread_mutex_unlock(&server->lock);
  if (!ok) return luaL_error(L, "not enough memory");
  wake_later(L, server);
  lua_pushboolean(L, has_room);
  return 1;
}

/* request:finish(is_cut): the body of the response is complete; with true, the connection is closed, so that the client
   sees that the body is incomplete. */
static int finish(lua_State *L) {
  Request *request = request_at(L);
  Server *server = request->server;
  bool is_cut = lua_toboolean(L, 2);
  (void)pthread_mutex_lock(&server->lock);
  request->is_done = true;
  request->is_cut = is_cut;
  request_resume(request);
  (void)pthread_mutex_unlock(&server->lock);
  wake_later(L, server);
  return 0;
}

/* request:why() -> why the server has ended the request, or nil */
static int why_ended(lua_State *L) {
  static const char *const names[] = {
      [WHY_GONE] = "gone", [WHY_LATE] = "late", [WHY_TOO_LONG] = "too_long", [WHY_MEMORY] = "memory"};
  Request *request = request_at(L);
  (void)pthread_mutex_lock(&request->server->lock);
  Why why = request->why;
  (void)pthread_mutex_unlock(&request->server->lock);
  lua_pushstring(L, names[why]); /* nil for NULL */
  return 1;
}

/* request:abandon(): the go block has died. */
static int give_up(lua_State *L) {
  Request *request = request_at(L);
  request_abandon(request);
  wake_later(L, request->server);
  return 0;
}

int luaopen_runnel_httpd_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", start}, {NULL, NULL}};
  static const luaL_Reg servers[] = {{"stop", stop}, {"quiesce", quiesce}, {NULL, NULL}};
  static const luaL_Reg requests[] = {
      {"head", head},        {"headers", headers}, {"read", read_body},  {"respond", respond}, {"stream", stream},
      {"write", write_body}, {"finish", finish},   {"abandon", give_up}, {"why", why_ended},   {NULL, NULL}};
  luaL_checkversion(L);
  (void)runnel_get_functions(L);
  handle_open(L, &server_type, servers);
  handle_open(L, &request_type, requests);
  luaL_newlib(L, functions);
  return 1;
}
