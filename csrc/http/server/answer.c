/* answer.c: the responses of requests; see server.h. */
#include "http/server/server.h"

/* Bytes that libmicrohttpd asks for at a time. */
enum { BLOCK = 32 * 1024 };

void request_resume(Request *request) {
  Server *server = request->server;
  if (!request->is_suspended || request->is_resumed) return;
  request->is_resumed = true;
  request->next_resumed = server->resumed;
  server->resumed = request;
}

void answer_with(Request *request, unsigned status, struct MHD_Response *response) {
  bool is_wanted = !request->is_answered && request->client;
  request->is_answered = true;
  if (!is_wanted) {
    MHD_destroy_response(response);
    return;
  }
  request->response = response;
  request->status = status;
  request->discards = true; /* the rest of the request's body */
  request_resume(request);
}

void answer_text(Request *request, unsigned status, const char *text) {
  struct MHD_Response *response =
      MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
  if (!response) return;
  (void)MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
  (void)MHD_add_response_header(response, "Connection", "close");
  answer_with(request, status, response);
}

/* libmicrohttpd asks for the next bytes of a body; in the server's thread. */
static ssize_t next_bytes(void *data, uint64_t position, char *to, size_t max) {
  Request *request = (Request *)data;
  Server *server = request->server;
  ssize_t n;
  (void)position;
  (void)pthread_mutex_lock(&server->lock);
  n = (ssize_t)bytes_take(&request->out, to, max);
  if (n) server->has_progressed = true;
  else if (request->is_cut || request->why) n = MHD_CONTENT_READER_END_WITH_ERROR;
  else if (request->is_done) n = MHD_CONTENT_READER_END_OF_STREAM;
  else if (request->client) {
    request->is_suspended = true;
    MHD_suspend_connection(request->client);
  }
  if (request->wants_room && bytes_length(&request->out) < BODY_WINDOW / 2) {
    request->wants_room = false;
    request_tell(request, EVENT_ROOM);
  }
  (void)pthread_mutex_unlock(&server->lock);
  return n;
}

struct MHD_Response *answer_stream(Request *request, uint64_t size) {
  struct MHD_Response *response = MHD_create_response_from_callback(size, BLOCK, next_bytes, request, handle_release);
  if (response) (void)handle_hold(request);
  return response;
}

void request_abandon(Request *request) {
  Server *server = request->server;
  (void)pthread_mutex_lock(&server->lock);
  if (!request->is_done) {
    request->is_done = true;
    if (request->is_answered) request->is_cut = true;
    else answer_text(request, MHD_HTTP_INTERNAL_SERVER_ERROR, "500: the server has failed\n");
    if (!request->is_answered) request->is_cut = true; /* there was no memory for the answer */
    request_resume(request);
  }
  (void)pthread_mutex_unlock(&server->lock);
}
