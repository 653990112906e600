/* request.c: the life of a request in the server's thread; see server.h. */
#include "http/server/server.h"

static void tell(Request *request, unsigned events) { events_add(&request->server->events, request, events); }

/* HandleType.free */
static void free_request(void *object) {
  Request *request = (Request *)object;
  bytes_free(&request->in);
  bytes_free(&request->trailers);
  bytes_free(&request->out);
  part_close(&request->part);
  handle_release(request->server);
  free(request);
}

/* HandleType.close: the userdata was collected, so nothing more of the answer will come. */
static void close_request(lua_State *L, void *object) {
  Request *request = (Request *)object;
  Server *server = request->server;
  (void)L;
  server_lock(server);
  bool is_left = request_finish(request, true);
  if (is_left) request_resume(request);
  if (request->reader) (void)server->rn->reader_close(request->reader);
  request->reader = NULL;
  server_unlock(server);
  if (is_left) thread_wake(&server->thread);
}

const HandleType request_type = {REQUEST_TYPE, close_request, free_request};

/* ---- the head ---- */

static size_t size_of(const Head *head) {
  size_t size = head->method.size + head->target.size + 2;
  for (size_t i = 0; i < head->nfields; i++) size += head->fields[i].name.size + head->fields[i].value.size + 2;
  return size;
}

/* Copies a text, and returns where the next one goes. */
static char *copy(char *to, Slice from) {
  memcpy(to, from.at, from.size);
  to[from.size] = 0;
  return to + from.size + 1;
}

static bool begin(Conn *conn, const Head *head) {
  Server *server = (Server *)conn->hub->data;
  Request *request = (Request *)calloc(1, sizeof *request + size_of(head));
  if (!request) return false;
  handle_init(request, &request_type);
  char *to = copy(request->text, head->method);
  for (size_t i = 0; i < head->nfields; i++) to = copy(copy(to, head->fields[i].name), head->fields[i].value);
  (void)copy(to, head->target);
  request->target = to;
  request->nheaders = head->nfields;
  request->server = (Server *)handle_hold(server);
  request->is_whole = !conn->has_body;
  request->is_head = head->is_head;
  request->is_old = head->is_old;
  request->keeps = conn->keeps;
  request->expects = conn->expects;
  request->can_upgrade = head->upgrades && !conn->has_body;
  memcpy(request->address, conn->peer.address, ADDRESS_SIZE);
  request->conn = conn;
  conn->request = request;
  server_lock(server);
  server->tally.running++;
  server_unlock(server);
  tell(request, EVENT_NEW);
  return true;
}

/* ---- the body ---- */

static size_t take_body(Conn *conn, const char *bytes, size_t size) {
  Request *request = (Request *)conn->request;
  Server *server = request->server;
  server_lock(server);
  size_t room = BODY_WINDOW - bytes_length(&request->in), n = size < room ? size : room;
  bool ok = bytes_add(&request->in, bytes, n);
  if (request->wants_body) tell(request, EVENT_BODY);
  request->wants_body = false;
  request->expects = false;
  server_unlock(server);
  if (ok) return n;
  /* seldom covered: the allocation that tests/http/httpd_oom.c lets fail depends on how the bytes come */
  conn_end_request(conn, END_MEMORY);
  conn_close(conn);
  return 0;
}

static void take_trailers(Conn *conn, Slice bytes) {
  Request *request = (Request *)conn->request;
  server_lock(request->server);
  bool ok = bytes_add(&request->trailers, bytes.at, bytes.size);
  server_unlock(request->server);
  if (ok) return;
  conn_end_request(conn, END_MEMORY); /* seldom covered: as in take_body */
  conn_close(conn);
}

static void complete_body(Conn *conn) {
  Request *request = (Request *)conn->request;
  server_lock(request->server);
  request->is_whole = true;
  if (request->wants_body) tell(request, EVENT_BODY);
  request->wants_body = false;
  server_unlock(request->server);
}

/* ---- the response ---- */

/* Waits until the socket is not lent to the Lua thread. With the lock. */
static void take_back(const Request *request) {
  Server *server = request->server;
  while (request->is_lent) (void)pthread_cond_wait(&server->returned, &server->lock);
}

static void pull(Conn *conn) {
  Request *request = (Request *)conn->request;
  server_lock(request->server);
  take_back(request);
  Answer *answer = &request->answer;
  (void)bytes_move(&conn->out, &request->out); /* conn->out is empty, so no memory is needed */
  conn->part = request->part;
  request->part = (Part){0};
  request->is_free = answer->upgrades && bytes_length(&conn->out) == 0 && !conn->wire.tls;
  if (!answer->is_given && conn->is_raw && !conn->wire.tls && bytes_length(&conn->in) == 0)
    answer->is_given =
        request->reader && request->server->rn->reader_watch(request->reader, conn->wire.fd) == RUNNEL_OK;
  conn->answer = *answer;
  conn->expects = request->expects;
  if (request->wants_room) tell(request, EVENT_ROOM);
  request->wants_room = false;
  server_unlock(request->server);
}

/* The status of a request that has ended: that of the response, if it has begun to be sent. */
static unsigned status_of(const Conn *conn, const Request *request, Ending ending) {
  static const unsigned statuses[] = {[END_FAILED] = 500,   [END_GONE] = 499,  [END_SLOW] = 408,  [END_LATE] = 503,
                                      [END_TOO_LONG] = 413, [END_WRONG] = 400, [END_MEMORY] = 499};
  return conn->answer.has_begun ? request->status : statuses[ending];
}

/* The connection ends: receives what Lua has not, at most the window. With the lock. */
static void receive_rest(Request *request) {
  if (!request->answer.is_given) return;
  request->is_dry = request->is_whole;
  while (!request->is_dry && bytes_length(&request->in) < BODY_WINDOW && request_receive(request)) continue;
  (void)request->server->rn->reader_watch(request->reader, -1);
}

static void end(Conn *conn, Ending ending) {
  Request *request = (Request *)conn->request;
  server_lock(request->server);
  take_back(request);
  tally_ended(&request->server->tally, status_of(conn, request, ending), conn->hub->now - conn->since);
  receive_rest(request);
  request->conn = NULL;
  if (ending != END_COMPLETE) request->ending = ending;
  if (!request->answer.is_done) tell(request, EVENT_ENDED);
  request->part_error = conn->part_error;
  if (conn->part_error) tell(request, EVENT_CUT);
  server_unlock(request->server);
  handle_release(request);
}

static void refused(Conn *conn, unsigned status) {
  Server *server = (Server *)conn->hub->data;
  server_lock(server);
  tally_refused(&server->tally, status);
  server_unlock(server);
}

const ConnUser request_user = {.begin = begin,
                               .body = take_body,
                               .trailers = take_trailers,
                               .whole = complete_body,
                               .pull = pull,
                               .ended = end,
                               .refused = refused};
