/* answer.c: the methods of a request, which read its body and give it a response; see server.h. In the Lua thread. */
#include <stdio.h>
#include <sys/socket.h>

#include "http/server/server.h"

static Request *request_at(lua_State *L) { return (Request *)handle_check(L, 1, REQUEST_TYPE); }

static void lock(Request *request) { server_lock(request->server); }

void request_resume(Request *request) {
  Server *server = request->server;
  if (request->resumed.next || !request->conn) return;
  (void)handle_hold(request);
  list_append(&server->resumed, &request->resumed);
}

/* Wakes the thread once the ready go blocks have run, or at once if no scheduler runs. */
static void wake_later(lua_State *L, Server *server) {
  if (thread_ends(&server->thread)) return;
  if (server->rn->task_add(L, &server->task) != RUNNEL_OK) thread_wake(&server->thread);
}

/* Releases the lock; with `resumes`, first makes the thread look at the request. */
static void unlock(lua_State *L, Request *request, bool resumes) {
  if (resumes) request_resume(request);
  server_unlock(request->server);
  if (resumes) wake_later(L, request->server);
}

/* ---- the request ---- */

/* request:head() -> method, target, address, whether the client offers another protocol */
static int head(lua_State *L) {
  const Request *request = request_at(L);
  lua_pushstring(L, request->text);
  lua_pushstring(L, request->target);
  lua_pushstring(L, request->address);
  lua_pushboolean(L, request->can_upgrade);
  return 4;
}

/* request:headers() -> a list of alternating names and values */
static int headers(lua_State *L) {
  const Request *request = request_at(L);
  const char *at = request->text + strlen(request->text) + 1;
  lua_createtable(L, (int)request->nheaders * 2, 0);
  for (size_t i = 1; i <= 2 * request->nheaders; i++) {
    lua_pushstring(L, at);
    lua_rawseti(L, -2, (lua_Integer)i);
    at += strlen(at) + 1;
  }
  return 1;
}

/* request:is_plain() -> whether it asks for no range and sets no condition */
static int is_plain(lua_State *L) {
  const Request *request = request_at(L);
  const char *at = request->text + strlen(request->text) + 1;
  bool is = true;
  for (size_t i = 0; i < request->nheaders && is; i++) {
    is = strncasecmp(at, "If-", 3) != 0 && strcasecmp(at, "Range") != 0;
    at += strlen(at) + 1;
    at += strlen(at) + 1;
  }
  lua_pushboolean(L, is);
  return 1;
}

/* request:is_old() -> whether the client speaks HTTP/1.0 */
static int is_old(lua_State *L) {
  lua_pushboolean(L, request_at(L)->is_old);
  return 1;
}

/* Sends the status 100, for which the client waits before it sends the body. Call it with the lock; false without
   memory. */
static bool send_continue(Request *request) {
  static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (!request->expects || request->answer.has_begun) return true;
  request->expects = !bytes_add(&request->out, text, sizeof text - 1);
  request->is_continued = true;
  return !request->expects;
}

/* The most bytes that are received at a time. */
enum { DIRECT_BLOCK = 16 * 1024 };

/* Makes the reader wait for the socket, or for nothing. With the lock. */
static bool watch(Request *request, bool is_on) {
  return request->server->rn->reader_watch(request->reader, is_on ? request->conn->wire.fd : -1) == RUNNEL_OK;
}

/* The ready of Request.reader: more bytes of another protocol have arrived, or their end. */
static void note_bytes(void *data) {
  Request *request = (Request *)data;
  lock(request);
  request->is_dry = false;
  bool tells = request->wants_body;
  if (tells) events_add(&request->server->events, request, EVENT_BODY);
  else if (request->conn) (void)watch(request, false); /* until a go block waits again */
  request->wants_body = false;
  server_unlock(request->server);
  if (tells) events_tell(&request->server->events);
}

/* Receives into a block of DIRECT_BLOCK bytes, as request_receive. Returns the number of bytes, or -1: no memory. */
static ptrdiff_t receive(Request *request, char *block) {
  if (!request->answer.is_given || !request->conn || request->is_whole) return 0;
  ssize_t n = request->is_dry ? -1 : recv(request->conn->wire.fd, block, DIRECT_BLOCK, MSG_DONTWAIT);
  request->is_dry = n < DIRECT_BLOCK;
  request->is_whole = n == 0;
  if (n == 0) (void)watch(request, false);
  return n >= 0 ? n : watch(request, true) ? 0 : -1;
}

bool request_receive(Request *request) {
  char block[DIRECT_BLOCK];
  ptrdiff_t n = receive(request, block);
  return n >= 0 && bytes_add(&request->in, block, (size_t)n);
}

/* The result of read_body if there are no bytes. Call it with the lock, which this releases. */
static int read_nothing(lua_State *L, Request *request) {
  bool is_end = request->is_whole, expected = request->expects;
  bool ok = is_end || send_continue(request);
  if (!is_end) request->wants_body = true;
  unlock(L, request, expected != request->expects);
  if (!ok) return luaL_error(L, "not enough memory");
  if (!is_end) return 0;
  lua_pushboolean(L, false);
  return 1;
}

/* request:read(max) -> bytes of the body, at most `max`, which is at least DIRECT_BLOCK; or false after the last; or
   nothing: EVENT_BODY will follow, unless the server has ended the request: then the go block is cancelled.
   After an upgrade it returns what the client sends, until the client closes the connection. */
static int read_body(lua_State *L) {
  Request *request = request_at(L);
  char block[DIRECT_BLOCK];
  size_t max = (size_t)luaL_checkinteger(L, 2);
  lock(request);
  ptrdiff_t received = bytes_length(&request->in) ? 0 : receive(request, block);
  if (received) {
    unlock(L, request, false);
    if (received < 0) return luaL_error(L, "not enough memory"); /* seldom covered */
    lua_pushlstring(L, block, (size_t)received);
    return 1;
  }
  size_t size = bytes_length(&request->in); /* it can only grow until Lua takes bytes */
  if (!size) return read_nothing(L, request);
  unlock(L, request, false);
  if (size > max) size = max;
  luaL_Buffer buffer;
  char *to = luaL_buffinitsize(L, &buffer, size);
  lock(request);
  bool was_low = bytes_length(&request->in) < BODY_WINDOW / 2;
  size = bytes_take(&request->in, to, size);
  bool is_low = bytes_length(&request->in) < BODY_WINDOW / 2;
  unlock(L, request, is_low && !was_low);
  luaL_pushresultsize(&buffer, size);
  return 1;
}

/* request:trailers() -> the lines behind a body in chunks, "" if there are none; or nothing until the body is complete */
static int trailers(lua_State *L) {
  Request *request = request_at(L);
  lock(request);
  bool is_whole = request->is_whole;
  unlock(L, request, false);
  if (!is_whole) return 0;
  lua_pushlstring(L, bytes_first(&request->trailers), bytes_length(&request->trailers)); /* they change no more */
  return 1;
}

/* request:why() -> why the server has ended the request, or nil */
static int why_ended(lua_State *L) {
  static const char *const names[] = {[END_GONE] = "gone",         [END_SLOW] = "slow",   [END_LATE] = "late",
                                      [END_TOO_LONG] = "too_long", [END_WRONG] = "wrong", [END_MEMORY] = "memory"};
  Request *request = request_at(L);
  lock(request);
  Ending ending = request->ending;
  unlock(L, request, false);
  lua_pushstring(L, names[ending]); /* nil for NULL */
  return 1;
}

/* ---- the response ---- */

/* Checks that all arguments from index `at` on are strings, so that reading them later raises no error. */
static void check_strings(lua_State *L, int at) {
  for (int top = lua_gettop(L); at <= top; at++) luaL_checktype(L, at, LUA_TSTRING);
  luaL_checkstack(L, 3, NULL);
}

/* Whether the program may set this header. Sets *closes if it is `Connection: close`, which must not be added. */
static bool may_set(const char *name, const char *value, bool *closes) {
  if (!reply_is_field(name, value) || strcasecmp(name, "Transfer-Encoding") == 0) return false;
  bool is_connection = strcasecmp(name, "Connection") == 0, is_close = strcasecmp(value, "close") == 0;
  *closes = is_connection && is_close;
  return !is_connection || is_close;
}

/* Whether the headers at index `at` and above, names and values in turn, have one with this name. */
static bool has_header(lua_State *L, int at, const char *name) {
  for (int top = lua_gettop(L); at < top; at += 2) {
    if (strcasecmp(lua_tostring(L, at), name) == 0) return true;
  }
  return false;
}

/* Adds the headers at index `at` and above: names and values in turn. If a header is not allowed, or the headers are
   too long, pushes the results for Lua and returns false. */
static bool add_headers(lua_State *L, int at, Request *request, Reply *reply) {
  size_t before = bytes_length(&reply->bytes);
  for (int top = lua_gettop(L); at < top; at += 2) {
    size_t of_name, of_value; /* a zero byte may be in each of them */
    const char *name = lua_tolstring(L, at, &of_name), *value = lua_tolstring(L, at + 1, &of_value);
    bool closes = false;
    if (strlen(name) != of_name || strlen(value) != of_value || !may_set(name, value, &closes)) {
      lua_pushboolean(L, false);
      lua_pushvalue(L, at);
      return false;
    }
    if (closes) request->keeps = false;
    else reply_field(reply, name, value);
  }
  if (bytes_length(&reply->bytes) - before <= request->server->engine.hub.limits.header) return true;
  lua_pushboolean(L, false);
  lua_pushnil(L);
  return false;
}

/* Whether the connection ends after the response. With the lock. */
static bool must_close(const Request *request) {
  return !request->keeps || request->server->drains || request->expects;
}

/* What follows the bytes that `give` passes to the connection. */
typedef enum Rest {
  REST_NONE,    /* nothing: the response is complete */
  REST_OF_BODY, /* the body, or more of it */
  REST_RAW      /* another protocol */
} Rest;

/* The shortest body that this thread sends: a shorter one is sent sooner by the thread, which must be woken anyway. */
enum { DIRECT_LEAST = 16 * 1024 };

/* Sends the head, which it removes, and the body, as much as the socket takes; *has_begun: some bytes. Returns how many
   bytes of the body. Only if nothing else can be sent on the connection meanwhile. With the lock, which it releases for
   that time. */
static size_t send_directly(Request *request, Reply *reply, const char *body, size_t size, bool *has_begun) {
  Server *server = request->server;
  if (size < DIRECT_LEAST || reply->failed || server->engine.hub.context || !request->conn || request->ending ||
      request->answer.has_begun || !request->is_whole || request->is_continued)
    return 0;
  const Wire *wire = &request->conn->wire;
  size_t of_head = bytes_length(&reply->bytes);
  request->is_lent = true;
  server_unlock(server);
  size_t n = wire_send_two(wire, bytes_first(&reply->bytes), of_head, body, size); /* 0: the thread finds out why */
  server_lock(server);
  request->is_lent = false;
  (void)pthread_cond_broadcast(&server->returned);
  if (n < of_head) of_head = n;
  bytes_drop(&reply->bytes, of_head);
  *has_begun = n > 0;
  return n - of_head;
}

/* Ends the head, adds the body (which may be empty), and makes both the response to the request, unless it has ended or
   has a response already. A part of a file, unless `part` is NULL, follows the body, and is closed at last. Returns false
   if there is no memory. */
static bool give(lua_State *L, Request *request, Reply *reply, const char *body, size_t size, Part *part, Rest rest) {
  lock(request);
  bool closes = rest != REST_RAW && must_close(request);
  if (closes) reply_field(reply, "Connection", "close");
  else if (request->is_old) reply_field(reply, "Connection", "keep-alive");
  reply_end(reply);
  bool has_begun = false;
  size_t sent = send_directly(request, reply, body, size, &has_begun);
  if (sent < size) reply_add(reply, body + sent, size - sent);
  bool is_wanted = !request->answer.has_begun && !request->ending;
  bool ok = !reply->failed && (!is_wanted || bytes_move(&request->out, &reply->bytes));
  if ((ok && is_wanted) || has_begun) {
    request->answer = (Answer){
        .has_begun = true, .is_done = rest == REST_NONE, .is_cut = !ok, .closes = closes, .upgrades = rest == REST_RAW};
    request->status = reply->status;
    if (rest == REST_RAW) {
      request->is_whole = false;
      request->wants_body = true;
    }
    if (part) request->part = *part;
    part = NULL;
  }
  unlock(L, request, (ok && is_wanted) || has_begun);
  if (part) part_close(part);
  bytes_free(&reply->bytes);
  return ok;
}

static int refused(Reply *reply) {
  bytes_free(&reply->bytes);
  return 2;
}

/* request:respond(status, body, length, name, value, ...) -> true, whether there is a body to write | false, the name of
   a header that is not allowed, or nil if the headers are too long. If `body` is nil, it is written later. `length` is
   that of a body which is written later; or the value of Content-Length for a response without a body, such as one to
   HEAD; -1: unknown, or the length of `body`. A header Date of the program's replaces the server's. Does nothing if the
   server has ended the request. */
static int respond(lua_State *L) {
  Request *request = request_at(L);
  unsigned status = (unsigned)luaL_checkinteger(L, 2);
  size_t size = 0;
  const char *body = luaL_optlstring(L, 3, NULL, &size);
  lua_Integer length = luaL_checkinteger(L, 4);
  check_strings(L, 5);
  Reply reply = {0};
  reply_begin(&reply, status, has_header(L, 5, "Date") ? NULL : &request->server->date);
  if (!add_headers(L, 5, request, &reply)) return refused(&reply);
  bool has = !request->is_head && status != 204 && status != 205 && status != 304, writes = has && !body;
  if (status == 205) length = 0;
  else if (body && (has || (length < 0 && request->is_head && status != 304))) length = (lua_Integer)size;
  if (length >= 0 && status != 204) reply_length(&reply, (uint64_t)length);
  request->has_chunks = writes && length < 0 && !request->is_old;
  if (request->has_chunks) reply_field(&reply, "Transfer-Encoding", "chunked");
  if (writes && length < 0 && request->is_old) request->keeps = false;
  request->promised = !writes ? 0 : length < 0 ? UINT64_MAX : (uint64_t)length;
  if (!give(L, request, &reply, body, has ? size : 0, NULL, writes ? REST_OF_BODY : REST_NONE))
    return luaL_error(L, "not enough memory");
  lua_pushboolean(L, true);
  lua_pushboolean(L, writes);
  return 2;
}

/* request:respond_file(status, file, offset, size, name, value, ...) -> true | false, as `respond`: a response whose body
   is a part of a file of folder.c, at least a byte, which the server reads and sends. The file is closed, or, if a header
   is not allowed, as it was. */
static int respond_file(lua_State *L) {
  Request *request = request_at(L);
  unsigned status = (unsigned)luaL_checkinteger(L, 2);
  Part part = {.at = (off_t)luaL_checkinteger(L, 4), .left = (uint64_t)luaL_checkinteger(L, 5)};
  check_strings(L, 6);
  Reply reply = {0};
  reply_begin(&reply, status, has_header(L, 6, "Date") ? NULL : &request->server->date);
  if (!add_headers(L, 6, request, &reply)) return refused(&reply);
  reply_length(&reply, part.left);
  request->promised = 0;
  part.fd = folder_take(L, 3);
  part.is_open = part.fd >= 0;
  if (request->is_head) part_close(&part);
  if (!give(L, request, &reply, "", 0, &part, REST_NONE)) return luaL_error(L, "not enough memory");
  lua_pushboolean(L, true);
  return 1;
}

/* request:hint(name, value, ...) -> true | false, as `respond`: sends a response of status 103 with these headers before
   the real one. Does nothing if that has begun, or the client speaks HTTP/1.0. */
static int hint(lua_State *L) {
  Request *request = request_at(L);
  check_strings(L, 2);
  Reply reply = {0};
  reply_begin(&reply, 103, NULL);
  if (!add_headers(L, 2, request, &reply)) return refused(&reply);
  reply_end(&reply);
  lock(request);
  bool sends = !request->is_old && !request->answer.has_begun && !request->ending;
  bool ok = !reply.failed && (!sends || bytes_move(&request->out, &reply.bytes));
  if (sends) request->is_continued = true; /* bytes go before the response */
  unlock(L, request, sends);
  bytes_free(&reply.bytes);
  if (!ok) return luaL_error(L, "not enough memory");
  lua_pushboolean(L, true);
  return 1;
}

/* request:upgrade(name, value, ...) -> true | false, name or nil: a response with status 101 and these headers;
   Connection is added. From then on `read`, `write` and `finish` are for the bytes of the other protocol; EVENT_BODY
   follows the first ones. Raises unless the client offers another protocol and there is no response yet. */
static int upgrade(lua_State *L) {
  Request *request = request_at(L);
  check_strings(L, 2);
  lock(request);
  bool is_answered = request->answer.has_begun;
  unlock(L, request, false);
  if (!request->can_upgrade || is_answered)
    return luaL_error(L, "the request does not offer another protocol, or has a response");
  Reply reply = {0};
  reply_begin(&reply, 101, NULL);
  if (!add_headers(L, 2, request, &reply)) return refused(&reply);
  reply_field(&reply, "Connection", "Upgrade");
  request->promised = UINT64_MAX;
  if (!request->reader) (void)request->server->rn->reader_open(L, note_bytes, request, &request->reader);
  if (!give(L, request, &reply, "", 0, NULL, REST_RAW)) return luaL_error(L, "not enough memory");
  lua_pushboolean(L, true);
  return 1;
}

/* Adds bytes of the response; all or nothing. With the lock. */
static bool add_bytes(Request *request, const char *bytes, size_t size) {
  char line[24];
  size_t before = bytes_length(&request->out);
  int n = request->has_chunks ? snprintf(line, sizeof line, "%zx\r\n", size) : 0;
  bool ok = bytes_add(&request->out, line, (size_t)n) && bytes_add(&request->out, bytes, size) &&
            (n == 0 || bytes_add(&request->out, "\r\n", 2));
  if (!ok) request->out.to = request->out.from + before;
  return ok;
}

/* Sends bytes of another protocol from this thread, without waking the server's thread, if no other bytes wait and
   there is no TLS. Returns how many were sent. With the lock, so that the connection stays open. */
static size_t send_at_once(Request *request, const Slice parts[2]) {
  if (!request->is_free || !request->conn || bytes_length(&request->out) > BODY_WINDOW) return 0;
  Wire *wire = &request->conn->wire;
  if (wire_send(wire, &request->out) < 0 || bytes_length(&request->out) > 0) return 0;
  return wire_send_two(wire, parts[0].at, parts[0].size, parts[1].at, parts[1].size);
}

/* Sends bytes, or adds those that are not sent at once. *is_sent: none are left. False without memory: none are sent, or
   the connection is cut. With the lock. */
static bool send_parts(Request *request, const Slice parts[2], bool *is_sent) {
  size_t sent = send_at_once(request, parts), before = bytes_length(&request->out);
  bool ok = true, has_begun = sent > 0;
  for (int i = 0; i < 2 && ok; i++) {
    size_t n = sent < parts[i].size ? sent : parts[i].size;
    sent -= n;
    if (n < parts[i].size) ok = add_bytes(request, parts[i].at + n, parts[i].size - n);
  }
  if (!ok) request->out.to = request->out.from + before;
  if (!ok && has_begun) (void)request_finish(request, true);
  *is_sent = bytes_length(&request->out) == 0;
  return ok;
}

/* request:write(bytes [, more]) -> true | false: wait for EVENT_ROOM before the next write, or, if the server has ended
   the request, for EVENT_ENDED; or nil: the body is longer than its length. `more`: bytes behind them, of another
   protocol. */
static int write_body(lua_State *L) {
  Request *request = request_at(L);
  Slice parts[2];
  parts[0].at = luaL_checklstring(L, 2, &parts[0].size);
  parts[1].at = luaL_optlstring(L, 3, "", &parts[1].size);
  size_t size = parts[0].size + parts[1].size;
  if (size > request->promised) return 0;
  lock(request);
  bool is_sent = true;
  bool ok = request->ending || size == 0 || send_parts(request, parts, &is_sent);
  bool has_room = !request->ending && bytes_length(&request->out) < BODY_WINDOW;
  if (!has_room) request->wants_room = true;
  unlock(L, request, !is_sent);
  if (!ok) return luaL_error(L, "not enough memory");
  if (request->promised != UINT64_MAX) request->promised -= size;
  lua_pushboolean(L, has_room);
  return 1;
}

bool request_finish(Request *request, bool is_cut) {
  Answer *answer = &request->answer;
  if (answer->is_done) return false;
  answer->is_done = true;
  answer->is_cut = is_cut;
  answer->resets = is_cut && request->is_old;
  return true;
}

/* request:finish(is_cut, name, value, ...) -> whether it is complete: the response ends, if it has chunks with these
   trailers, which Lua has checked. If `is_cut`, or if bytes are missing to its length, the client sees that it is
   incomplete. Without a response the client gets status 500. */
static int finish(lua_State *L) {
  Request *request = request_at(L);
  bool is_cut = lua_toboolean(L, 2) || (request->promised && request->promised != UINT64_MAX);
  check_strings(L, 3);
  Reply reply = {0}; /* the last chunk */
  if (request->has_chunks) {
    reply_add(&reply, "0\r\n", 3);
    for (int at = 3, top = lua_gettop(L); at < top; at += 2)
      reply_field(&reply, lua_tostring(L, at), lua_tostring(L, at + 1));
    reply_end(&reply);
  }
  lock(request);
  bool ends_chunks = request->has_chunks && !is_cut && !request->answer.is_done;
  if (ends_chunks && (reply.failed || !bytes_move(&request->out, &reply.bytes))) is_cut = true;
  bytes_free(&reply.bytes);
  unlock(L, request, request_finish(request, is_cut));
  lua_pushboolean(L, !is_cut);
  return 1;
}

const luaL_Reg answer_methods[] = {{"head", head},         {"headers", headers},
                                   {"is_plain", is_plain}, {"is_old", is_old},
                                   {"read", read_body},    {"trailers", trailers},
                                   {"why", why_ended},     {"respond", respond},
                                   {"hint", hint},         {"respond_file", respond_file},
                                   {"upgrade", upgrade},   {"write", write_body},
                                   {"finish", finish},     {NULL, NULL}};
