/* input.c: parses the bytes that a client sends on a connection, and passes heads and bodies to the user. */
#include "http/server/conn.h"

static void refuse_head(Conn *conn, int status) {
  const char *text = status == 414   ? "414: the target is too long\n"
                     : status == 431 ? "431: the headers are too long\n"
                     : status == 501 ? "501: the method or the transfer coding is not supported\n"
                     : status == 505 ? "505: this server speaks HTTP/1.1 only\n"
                     : status == 417 ? "417: the header Expect may only be 100-continue\n"
                                     : "400: this is not an HTTP/1.1 request\n";
  conn_refuse(conn, (unsigned)status, text, END_WRONG);
}

/* Begins the request whose head is complete. */
static void begin(Conn *conn, const Head *head) {
  Hub *hub = conn->hub;
  conn->requests++;
  conn->is_head = head->is_head;
  conn->has_body = head->is_chunked || head->length > 0;
  conn->client_keeps = head->keeps;
  conn->keeps = head->keeps && !hub->drains && conn->requests < hub->limits.requests;
  conn->expects = head->expects && conn->has_body;
  conn->received = 0;
  conn->left = head->length;
  conn->chunks = (Chunks){0};
  conn->since = hub->now;
  conn->phase = head->is_chunked ? PHASE_CHUNKS : head->length ? PHASE_LENGTH : PHASE_WHOLE;
  if (conn->is_surplus) conn_refuse(conn, 503, "503: there are too many connections; try again later\n", END_WRONG);
  else if (head->length > hub->limits.body) conn_refuse(conn, 413, "413: the body is too long\n", END_TOO_LONG);
  else if (!hub->user->begin(conn, head)) conn_close(conn);
}

static size_t take_head(Conn *conn, const char *bytes, size_t size) {
  Head head;
  ptrdiff_t n = head_find(bytes, size, conn->hub->limits.header, &conn->seen);
  int status = n < 0 ? (int)-n : n > 0 ? head_read(&head, bytes, (size_t)n) : 0;
  if (status) refuse_head(conn, status);
  else if (n > 0) begin(conn, &head);
  return n > 0 ? (size_t)n : 0;
}

/* Passes bytes of the body to the user, or drops them if the request has ended. Returns how many bytes were taken. */
static size_t give(Conn *conn, const char *bytes, size_t size) {
  size_t taken = !conn->request ? size : conn->hub->user->body(conn, bytes, size);
  conn->received += taken;
  conn->expects = false;
  return taken;
}

static void complete_body(Conn *conn) {
  conn->phase = PHASE_WHOLE;
  if (conn->request) conn->hub->user->whole(conn);
}

static size_t take_length(Conn *conn, const char *bytes, size_t size) {
  size_t taken = give(conn, bytes, size < conn->left ? size : (size_t)conn->left);
  conn->left -= taken;
  if (!conn->left && !conn->is_closed) complete_body(conn);
  return taken;
}

/* A piece of a chunk that the user does not take at once is parsed again later. */
static size_t take_chunks(Conn *conn, const char *bytes, size_t size) {
  Slice piece, trailers;
  Chunks before = conn->chunks;
  ptrdiff_t n = chunks_parse(&conn->chunks, bytes, size, &piece, &trailers);
  if (n < 0) {
    conn_refuse(conn, 400, "400: the chunks of the body are malformed\n", END_WRONG);
    return 0;
  }
  if (conn->received + piece.size > conn->hub->limits.body) {
    conn_refuse(conn, 413, "413: the body is too long\n", END_TOO_LONG);
    return 0;
  }
  size_t taken = piece.size ? give(conn, piece.at, piece.size) : 0;
  if (conn->is_closed) return taken;
  if (taken < piece.size) {
    size_t done = (size_t)(piece.at - bytes) + taken;
    conn->chunks = before;
    (void)chunks_parse(&conn->chunks, bytes, done, &piece, &trailers);
    return done;
  }
  if (trailers.size && conn->request && conn->hub->user->trailers) conn->hub->user->trailers(conn, trailers);
  if (conn->is_closed) return (size_t)n; /* seldom covered: only when memory runs out */
  if (chunks_are_complete(&conn->chunks)) complete_body(conn);
  return (size_t)n;
}

/* Drops what a client sends after the server has ended the connection. Returns how many bytes were dropped. */
static size_t drop(Conn *conn, size_t size) {
  if (size < conn->left) conn->left -= size;
  else conn_close(conn);
  return size;
}

static size_t take_some(Conn *conn, const char *bytes, size_t size) {
  switch (conn->phase) {
  case PHASE_HEAD:
    return take_head(conn, bytes, size);
  case PHASE_LENGTH:
    return take_length(conn, bytes, size);
  case PHASE_CHUNKS:
    return take_chunks(conn, bytes, size);
  case PHASE_RAW:
    return give(conn, bytes, size);
  case PHASE_LINGER:
    return drop(conn, size);
  default:
    return 0;
  }
}

/* Uses received bytes as far as the phase allows; returns how many were used. */
static size_t take(Conn *conn, const char *bytes, size_t size) {
  size_t all = 0;
  while (!conn->is_closed && all < size) {
    Phase phase = conn->phase;
    size_t n = take_some(conn, bytes + all, size - all);
    all += n;
    if (n == 0 && conn->phase == phase) break;
  }
  return all;
}

void input_take(Conn *conn) {
  if (bytes_length(&conn->in) == 0) return;
  size_t n = take(conn, bytes_first(&conn->in), bytes_length(&conn->in));
  if (conn->is_closed || bytes_length(&conn->in) == 0) return;
  bytes_drop(&conn->in, n);
}

bool input_is_wanted(const Conn *conn) {
  if (conn->phase == PHASE_HEAD) return true;
  if (conn->phase == PHASE_RAW && conn->answer.is_given) return false;
  return conn->phase != PHASE_WHOLE && bytes_length(&conn->in) == 0;
}

/* Handles that the client has closed its sending side. */
static void end_input(Conn *conn) {
  conn->is_half = true;
  if (conn->phase == PHASE_RAW) complete_body(conn);
  else conn_close(conn); /* a request is incomplete, or there is none */
}

/* The connection is broken. If the TLS session has failed, its alert is still sent, which tells the client why. */
static void lose(Conn *conn) {
  if (conn->wire.has_failed) (void)wire_send(&conn->wire, &conn->out);
  conn_close(conn);
}

static void refuse_plain(Conn *conn) {
  conn->is_greeting = false;
  conn_refuse(conn, 400, "400: this port speaks TLS; use an https:// URL\n", END_WRONG);
}

void input_receive(Conn *conn) {
  Hub *hub = conn->hub;
  ptrdiff_t n = wire_receive(&conn->wire, hub->block, CONN_BLOCK, &conn->has_more);
  if (n == WIRE_END) end_input(conn);
  if (n == WIRE_LOST) lose(conn);
  if (n == WIRE_PLAIN) refuse_plain(conn);
  if (n <= 0) return;
  conn_progress(conn, &conn->reading, (size_t)n);
  bool has_waiting = bytes_length(&conn->in) > 0;
  size_t taken = has_waiting ? 0 : take(conn, hub->block, (size_t)n);
  if (conn->is_closed) return;
  if (!bytes_add(&conn->in, hub->block + taken, (size_t)n - taken)) {
    conn_close(conn); /* seldom covered: only when memory runs out */
    return;
  }
  if (has_waiting) input_take(conn);
}
