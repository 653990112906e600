/* request.c: the life of a request in the server's thread; see server.h.

   libmicrohttpd calls request_begin when the first line has arrived, request_handle when the headers have (EVENT_NEW),
   for each piece of the body, and once more at its end. If there is no answer by then, it asks again in each turn: that
   costs less than suspending the connection, which needs five system calls. A request without an answer after FRESH is
   suspended. libmicrohttpd then does not notice that its client goes away, so request_look does. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/server/daemon.h"
#include "http/server/server.h"

/* How long libmicrohttpd asks in each turn for a request's answer, in ns. */
static const int64_t FRESH = 2 * CLOCK_MS;

/* How long to wait before checking whether the client has gone, in ns: a client that has only closed its side of the
   connection gets an answer within this time. */
static const int64_t GRACE = 100 * CLOCK_MS;

/* A body that is too long is read to the end, so that the client reads the answer, up to this multiple of the limit. */
enum { PATIENCE = 4 };

/* HandleType.free */
static void free_request(void *object) {
  Request *request = (Request *)object;
  bytes_free(&request->in);
  bytes_free(&request->out);
  free(request->head);
  handle_release(request->server);
  free(request);
}

/* HandleType.close: the userdata is collected: there will be no answer. */
static void close_request(lua_State *L, void *object) {
  Request *request = (Request *)object;
  (void)L;
  request_abandon(request);
  thread_wake(&request->server->thread);
}

const HandleType request_type = {REQUEST_TYPE, close_request, free_request};

/* ---- connections ---- */

static void copy_address(const struct sockaddr *from, char to[ADDRESS_SIZE]) {
  const void *address = NULL;
  if (from && from->sa_family == AF_INET) address = &((const struct sockaddr_in *)(const void *)from)->sin_addr;
  if (from && from->sa_family == AF_INET6) address = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
  if (!address || !inet_ntop(from->sa_family, address, to, ADDRESS_SIZE)) *to = 0;
}

static void set_idle(Server *server, Client *client, bool is_idle) {
  if (client->is_idle == is_idle) return;
  client->is_idle = is_idle;
  client->since = server->now;
  if (is_idle) list_append(&server->clients, &client->link);
  else list_remove(&server->clients, &client->link);
}

static Client *client_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? (Client *)info->socket_context : NULL;
}

void request_connection(void *data, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code) {
  Server *server = (Server *)data;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    Client *client = (Client *)calloc(1, sizeof *client);
    server->nopen++;
    *context = client;
    if (!client) return; /* its requests are refused */
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    client->client = connection;
    copy_address(info ? info->client_addr : NULL, client->address);
    set_idle(server, client, true);
    return;
  }
  server->nopen--;
  Client *client = (Client *)*context;
  if (!client) return;
  set_idle(server, client, false);
  free(client);
  *context = NULL;
}

/* ---- headers ---- */

void *request_begin(void *data, const char *target, struct MHD_Connection *client) {
  Server *server = (Server *)data;
  size_t size = strlen(target) + 1;
  Request *request = (Request *)calloc(1, sizeof *request + size);
  if (!request) return NULL;
  handle_init(request, &request_type);
  request->server = (Server *)handle_hold(server);
  request->client = client;
  memcpy(request->target, target, size);
  return request;
}

/* The headers, as request_handle collects them. */
typedef struct Head {
  Bytes bytes; /* Request.head */
  size_t n;    /* headers */
  bool failed; /* there was no memory */
} Head;

static void add_text(Head *head, const char *text) {
  if (!bytes_add(&head->bytes, text, strlen(text) + 1)) head->failed = true;
}

static enum MHD_Result add_header(void *data, enum MHD_ValueKind kind, const char *name, const char *value) {
  Head *head = (Head *)data;
  (void)kind;
  add_text(head, name);
  add_text(head, value ? value : "");
  head->n++;
  return head->failed ? MHD_NO : MHD_YES;
}

/* Copies the data for the Lua thread; false if there is no memory. */
static bool copy_head(Request *request, struct MHD_Connection *client, const char *method) {
  Head head = {0};
  add_text(&head, method);
  if (!head.failed) (void)MHD_get_connection_values(client, MHD_HEADER_KIND, add_header, &head);
  if (head.failed) {
    bytes_free(&head.bytes);
    return false;
  }
  request->head = head.bytes.start;
  request->nheaders = head.n;
  return true;
}

/* Whether the header Content-Length says that the body is longer than the limit; and whether there is a body. */
static bool is_too_long(Request *request, struct MHD_Connection *client) {
  const char *length = MHD_lookup_connection_value(client, MHD_HEADER_KIND, "Content-Length");
  const char *coding = MHD_lookup_connection_value(client, MHD_HEADER_KIND, "Transfer-Encoding");
  char *end = NULL;
  uint64_t n = length ? strtoull(length, &end, 10) : 0;
  request->has_body = coding || n > 0;
  return !coding && n > request->server->limits.body;
}

/* The server answers by itself: Lua does not see the request. */
static enum MHD_Result refuse(struct MHD_Connection *client, unsigned status, const char *text) {
  struct MHD_Response *response =
      MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
  if (!response) return MHD_NO;
  (void)MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
  (void)MHD_add_response_header(response, "Connection", "close");
  enum MHD_Result result = MHD_queue_response(client, status, response);
  MHD_destroy_response(response);
  return result;
}

/* The headers have arrived. */
static enum MHD_Result meet(Server *server, Request *request, struct MHD_Connection *connection, const char *method) {
  Client *client = client_of(connection);
  if (!client || !copy_head(request, connection, method)) return MHD_NO;
  set_idle(server, client, false);
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  if (info && info->header_size > server->limits.header)
    return refuse(connection, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "431: the headers are too long\n");
  if (is_too_long(request, connection))
    return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "413: the body is too long\n");
  memcpy(request->address, client->address, ADDRESS_SIZE);
  request->is_known = true;
  request->since = server->now;
  list_append(&server->known, &request->link);
  request_tell(request, EVENT_NEW);
  return MHD_YES;
}

/* ---- body ---- */

/* The server ends a request. With the lock. */
static void end_request(Request *request, Why why) {
  if (request->why) return;
  request->why = why;
  if (!request->is_done) request_tell(request, EVENT_ENDED);
  request_resume(request);
}

/* A piece of the body has arrived. With the lock. */
static enum MHD_Result take_piece(Request *request, const char *data, size_t *size) {
  Server *server = request->server;
  bool was_too_long = request->received > server->limits.body;
  if (request->why == WHY_LATE) return MHD_NO;
  if (!request->discards && bytes_length(&request->in) >= BODY_WINDOW) {
    request->is_suspended = true;
    MHD_suspend_connection(request->client);
    return MHD_YES;
  }
  server->has_progressed = true;
  request->received += *size;
  if (request->received > server->limits.body && !was_too_long) {
    answer_text(request, MHD_HTTP_CONTENT_TOO_LARGE, "413: the body is too long\n");
    end_request(request, WHY_TOO_LONG);
  }
  if (request->received / PATIENCE > server->limits.body) return MHD_NO;
  if (!request->discards && !bytes_add(&request->in, data, *size)) {
    end_request(request, WHY_MEMORY);
    return MHD_NO;
  }
  *size = 0;
  if (request->wants_body) {
    request->wants_body = false;
    request_tell(request, EVENT_BODY);
  }
  return MHD_YES;
}

/* ---- the answer ---- */

static void set_fresh(Request *request, bool is_fresh) {
  if (request->is_fresh == is_fresh) return;
  request->is_fresh = is_fresh;
  if (is_fresh) request->server->nfresh++;
  else request->server->nfresh--;
}

/* The whole request has arrived: takes the answer, if there is one, to be sent. With the lock. */
static enum MHD_Result take_answer(Request *request, struct MHD_Response **response) {
  Server *server = request->server;
  if (!request->is_whole) {
    request->is_whole = true;
    if (request->wants_body) request_tell(request, EVENT_BODY);
    request->wants_body = false;
  }
  *response = request->response;
  if (*response) {
    set_fresh(request, false);
    request->response = NULL;
    server->has_progressed = true;
    return MHD_YES;
  }
  if (request->why || request->is_cut) return MHD_NO;
  bool is_fresh = server->now - request->since < FRESH;
  set_fresh(request, is_fresh);
  if (!is_fresh) {
    request->is_suspended = true;
    MHD_suspend_connection(request->client);
  }
  return MHD_YES;
}

enum MHD_Result request_handle(void *data, struct MHD_Connection *client, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_size, void **context) {
  (void)url, (void)version;
  Server *server = (Server *)data;
  Request *request = (Request *)*context;
  if (!request) return MHD_NO; /* there was no memory */
  if (!request->is_known) return meet(server, request, client, method);
  struct MHD_Response *response = NULL;
  (void)pthread_mutex_lock(&server->lock);
  enum MHD_Result result = *upload_size ? take_piece(request, upload, upload_size) : take_answer(request, &response);
  unsigned status = request->status;
  (void)pthread_mutex_unlock(&server->lock);
  if (!response) return result;
  result =
      MHD_queue_response(client, status, response); /* without the lock: it locks the response, as the reader does */
  MHD_destroy_response(response);
  return result;
}

void request_completed(void *data, struct MHD_Connection *connection, void **context,
                       enum MHD_RequestTerminationCode code) {
  Server *server = (Server *)data;
  Request *request = (Request *)*context;
  Client *client = client_of(connection);
  if (client) set_idle(server, client, true);
  if (!request) return;
  *context = NULL;
  set_fresh(request, false);
  if (request->is_known) list_remove(&server->known, &request->link);
  (void)pthread_mutex_lock(&server->lock);
  request->client = NULL;
  struct MHD_Response *response = request->response; /* it is too late; releasing it may release the request */
  request->response = NULL;
  if (request->is_known && (code != MHD_REQUEST_TERMINATED_COMPLETED_OK || !request->is_done))
    end_request(request, WHY_GONE);
  (void)pthread_mutex_unlock(&server->lock);
  if (response) MHD_destroy_response(response);
  handle_release(request);
}

/* ---- those that must end ---- */

/* Whether the other end has closed the connection. */
static bool has_gone(struct MHD_Connection *client) {
  char byte;
  int fd = daemon_socket(client);
  return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* With the lock. */
static void look_at(Server *server, Request *request) {
  int64_t age = server->now - request->since;
  if (age > GRACE && request->is_suspended && has_gone(request->client)) end_request(request, WHY_GONE);
  if (!server->limits.request || age <= server->limits.request || (request->is_answered && request->is_whole)) return;
  answer_text(request, MHD_HTTP_SERVICE_UNAVAILABLE, "503: the answer took too long\n");
  end_request(request, WHY_LATE);
  if (!request->is_whole) daemon_end_connection(request->client); /* no answer before the whole body has arrived */
}

void request_look(Server *server) {
  for (Link *link = server->known.first; link; link = list_next(&server->known, link)) {
    Request *request = CONTAINER_OF(link, Request, link);
    (void)pthread_mutex_lock(&server->lock);
    look_at(server, request);
    (void)pthread_mutex_unlock(&server->lock);
  }
  for (Link *link = server->clients.first; link; link = list_next(&server->clients, link)) {
    Client *client = CONTAINER_OF(link, Client, link);
    if (!server->has_quiesced && server->now - client->since < server->limits.idle) break;
    daemon_end_connection(client->client); /* libmicrohttpd closes it, which removes it from the list */
  }
}
