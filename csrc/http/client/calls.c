/* calls.c: the methods of clients and transfers for Lua. See client.h. */
#include <string.h>

#include "http/client/client.h"

static Transfer *check(lua_State *L) { return (Transfer *)handle_check(L, 1, TRANSFER_TYPE); }

/* ---- starting and ending ---- */

static void cancel(lua_State *L, Transfer *t) {
  if (t->is_over) return;
  transfer_leave(L, t);
  client_ask(L, t, ASK_CANCEL);
}

static void close_transfer(lua_State *L, void *object) { cancel(L, (Transfer *)object); }

static const HandleType transfer_type = {TRANSFER_TYPE, close_transfer, transfer_free};

/* Gets an easy handle; returns whether it is new. Making one, and setting all its options, takes as long as a fifth of
   a request. */
static bool get_easy(Transfer *t) {
  Client *client = t->client;
  client_lock(client);
  if (client->nspare > 0) t->easy = client->spare[--client->nspare];
  client_unlock(client);
  if (t->easy) return false;
  t->easy = curl_easy_init();
  return true;
}

/* client:start(url, settings, news [, room]) -> transfer: begins a request. `settings` may be nil. Each event puts true
   on `news`, and on `room`, where the feeding go block waits. Raises if a setting is wrong. */
int transfer_start(lua_State *L) {
  Client *client = (Client *)handle_get(L, 1, CLIENT_TYPE);
  const char *url = luaL_checkstring(L, 2);
  lua_settop(L, 5);
  if (!client || thread_ends(&client->thread)) return luaL_error(L, "the lua_State is being closed");
  Transfer *t = (Transfer *)handle_new(L, &transfer_type, sizeof *t, TRANSFER_VALUES);
  t->client = (Client *)handle_hold(client);
  t->connection = -1;
  t->is_over = true;
  lua_pushvalue(L, 4);
  lua_setiuservalue(L, 6, TRANSFER_NEWS);
  lua_pushvalue(L, 5);
  lua_setiuservalue(L, 6, TRANSFER_ROOM);
  bool is_new = get_easy(t);
  if (!t->easy) return luaL_error(L, "not enough memory");
  t->is_special = true; /* in case of an error below */
  settings_apply(L, url, 3, t, is_new);
  transfer_set_callbacks(t);
  lua_getiuservalue(L, 1, CLIENT_TRANSFERS);
  lua_pushvalue(L, 6);
  t->ref = luaL_ref(L, 7); /* the last call that may raise, apart from the errors below */
  int error = thread_start(&client->thread, "runnel-http", thread_run, client);
  lua_getiuservalue(L, 1, CLIENT_EVENTS);
  int code = error ? RUNNEL_OK : events_open(L, &client->events, -1, RUNNEL_LEAVE_OPEN);
  if (error || code != RUNNEL_OK) {
    luaL_unref(L, 7, t->ref);
    if (error) return luaL_error(L, "cannot start a thread: %s", strerror(error)); /* uncovered: no thread is left */
    return events_refuse(L, client->rn, code);
  }
  lua_settop(L, 6);
  t->is_over = false;
  client->under_way++;
  (void)handle_hold(t); /* the thread's */
  client_ask(L, t, ASK_START);
  return 1;
}

int client_limit(lua_State *L) {
  Client *client = (Client *)handle_check(L, 1, CLIENT_TYPE);
  atomic_store(&client->host_max, (int)luaL_checkinteger(L, 2));
  client_wake(client);
  return 0;
}

int client_close_idle(lua_State *L) {
  Client *client = (Client *)handle_check(L, 1, CLIENT_TYPE);
  client_lock(client);
  client->closes_idle = true;
  client_unlock(client);
  client_wake(client);
  return 0;
}

/* transfer:cancel(), and its __close: ends it, unless it has ended. */
static int transfer_cancel(lua_State *L) {
  Transfer *t = (Transfer *)handle_get(L, 1, TRANSFER_TYPE);
  if (t) cancel(L, t);
  return 0;
}

/* ---- what it gives and takes ---- */

/* Pushes the lines of the headers. */
static void push_head(lua_State *L, const Transfer *t) {
  lua_pushlstring(L, bytes_first(&t->head), bytes_length(&t->head));
}

/* transfer:head() -> status, lines of headers | nil: nil until the headers of the last response have arrived. */
static int transfer_head(lua_State *L) {
  Transfer *t = check(L);
  if (!atomic_load(&t->has_head)) return 0;
  lua_pushinteger(L, t->status);
  push_head(L, t);
  return 2;
}

/* transfer:take() -> bytes of the body that have arrived since the last call, or nil if there are none. */
static int transfer_take(lua_State *L) {
  Transfer *t = check(L);
  if (bytes_length(&t->taken) == 0) {
    client_lock(t->client);
    Bytes emptied = t->taken;
    t->taken = t->body;
    t->body = emptied;
    bool resumes = t->no_receive;
    if (resumes) t->no_receive = false;
    client_unlock(t->client);
    if (resumes) client_ask(L, t, ASK_RESUME);
  }
  if (bytes_length(&t->taken) == 0) return 0;
  lua_pushlstring(L, bytes_first(&t->taken), bytes_length(&t->taken));
  bytes_clear(&t->taken); /* only now: pushing may raise */
  return 1;
}

/* Pushes the URL, the times as numbers in binary, the certificates and the lines of the trailers, which may be nil. */
static int push_connection(lua_State *L, const Transfer *t) {
  lua_pushstring(L, t->url);
  lua_pushlstring(L, (const char *)t->times, sizeof t->times);
  if (!t->wants_certificates && bytes_length(&t->trailers) == 0) return 2;
  if (t->wants_certificates) lua_pushlstring(L, bytes_first(&t->certificates), bytes_length(&t->certificates));
  else lua_pushnil(L);
  lua_pushlstring(L, bytes_first(&t->trailers), bytes_length(&t->trailers));
  return 4;
}

/* transfer:result() -> true, url, times, certificates, trailers | nil, name of the error, text | nothing until it has ended. */
static int transfer_result(lua_State *L) {
  Transfer *t = check(L);
  if (!atomic_load(&t->has_ended)) return 0;
  if (t->code == CURLE_OK) {
    lua_pushboolean(L, 1);
    return 1 + push_connection(L, t);
  }
  lua_pushnil(L);
  response_push_error(L, t);
  return 3;
}

/* transfer:response() -> status, lines of headers, body, url, times, certificates, trailers | nil, name of the error, text
   | nothing until it has ended. */
static int transfer_response(lua_State *L) {
  Transfer *t = check(L);
  if (!atomic_load(&t->has_ended)) return 0;
  if (t->code != CURLE_OK) return transfer_result(L);
  lua_pushinteger(L, t->status);
  push_head(L, t);
  lua_pushlstring(L, bytes_first(&t->body), bytes_length(&t->body));
  int n = push_connection(L, t);
  bytes_free(&t->body);
  return 3 + n;
}

/* transfer:hints() -> the lines of early hints that have arrived since the last call, with an empty line after each
   response, or nil if there are none. */
static int transfer_hints(lua_State *L) {
  Transfer *t = check(L);
  client_lock(t->client);
  size_t size = bytes_length(&t->hints);
  client_unlock(t->client);
  if (size == 0) return 0;
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, size);
  client_lock(t->client);
  memcpy(to, bytes_first(&t->hints), size);
  client_unlock(t->client);
  luaL_pushresultsize(&buffer, size); /* may raise: they are dropped only now */
  client_lock(t->client);
  bytes_drop(&t->hints, size);
  client_unlock(t->client);
  return 1;
}

/* transfer:feed(bytes) -> whether there is room for more | nil if it has ended. Without bytes: the end of the
   upload. */
static int transfer_feed(lua_State *L) {
  Transfer *t = check(L);
  size_t size = 0;
  const char *bytes = luaL_optlstring(L, 2, NULL, &size);
  client_lock(t->client);
  bool is_kept = !bytes || bytes_add(&t->feed, bytes, size);
  if (!bytes) t->fed_all = true;
  bool resumes = is_kept && t->no_send, ended = atomic_load(&t->has_ended);
  if (resumes) t->no_send = false;
  bool has_room = bytes_length(&t->feed) < ENOUGH;
  client_unlock(t->client);
  if (!is_kept) return luaL_error(L, "not enough memory");
  if (ended) return 0;
  if (resumes) client_ask(L, t, ASK_RESUME);
  lua_pushboolean(L, has_room);
  return 1;
}

/* transfer:has_room() -> feed's result. */
static int transfer_has_room(lua_State *L) {
  Transfer *t = check(L);
  client_lock(t->client);
  bool has_room = bytes_length(&t->feed) < ENOUGH, ended = atomic_load(&t->has_ended);
  client_unlock(t->client);
  if (ended) return 0;
  lua_pushboolean(L, has_room);
  return 1;
}

void calls_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"cancel", transfer_cancel},     {"feed", transfer_feed},
                                     {"has_room", transfer_has_room}, {"head", transfer_head},
                                     {"hints", transfer_hints},       {"response", transfer_response},
                                     {"result", transfer_result},     {"take", transfer_take},
                                     {"__close", transfer_cancel},    {NULL, NULL}};
  handle_open(L, &transfer_type, methods);
}
