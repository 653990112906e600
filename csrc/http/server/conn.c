/* conn.c: see conn.h. */
#include "http/server/conn.h"

#include <sys/socket.h>

/* After the server has ended a connection it reads and drops what the client still sends: for this time, or for the
   limit `idle` if that is less, and up to this many bytes. */
static const int64_t LINGER = 2000 * CLOCK_MS;
enum { LINGER_BYTES = 1 << 20 };

/* ---- the end ---- */

void conn_end_request(Conn *conn, Ending ending) {
  if (!conn->request) return;
  conn->hub->user->ended(conn, ending);
  conn->request = NULL;
}

void conn_close(Conn *conn) {
  Hub *hub = conn->hub;
  if (conn->is_closed) return;
  conn_end_request(conn, END_GONE);
  if (hub->user->closed) hub->user->closed(conn);
  conn->is_closed = true;
  timers_remove(&hub->timers, &conn->timer);
  poller_remove(&hub->poller, &conn->item);
  if (conn->is_raw) listen_limit_unread(conn->wire.fd, hub->limits.idle / CLOCK_MS);
  if (conn->answer.resets)
    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
  wire_close(&conn->wire);
  part_close(&conn->part);
  if (conn->load) conn->load->owner = NULL; /* the loader still reads */
  conn->load = NULL;
  bytes_free(&conn->in);
  bytes_free(&conn->out);
  list_remove(&hub->conns, &conn->link);
  list_append(&hub->closed, &conn->link);
}

void conn_free(Conn *conn) {
  Hub *hub = conn->hub;
  list_remove(&hub->closed, &conn->link);
  hub->nconns--;
  free(conn);
}

void conn_linger(Conn *conn) {
  wire_end(&conn->wire);
  bool ok = wire_send(&conn->wire, &conn->out) >= 0;
  bool is_silent = !conn->client_keeps && conn->phase == PHASE_WHOLE && bytes_length(&conn->in) == 0;
  bool is_over = (conn->is_half || is_silent) && !wire_has_unread(&conn->wire);
  if (!ok || is_over || shutdown(conn->wire.fd, SHUT_WR) != 0) {
    conn_close(conn);
    return;
  }
  conn->phase = PHASE_LINGER;
  conn->left = LINGER_BYTES;
  conn->until = conn->hub->now + (LINGER < conn->hub->limits.idle ? LINGER : conn->hub->limits.idle);
  bytes_free(&conn->in);
}

void conn_refuse(Conn *conn, unsigned status, const char *text, Ending ending) {
  const Answer *answer = &conn->answer;
  bool has_begun = answer->has_begun, is_sent = answer->is_done && !answer->is_cut && !conn_is_writing(conn);
  bool is_users = conn->request;
  conn->keeps = false;
  conn_end_request(conn, ending);
  if (has_begun && is_sent) conn_linger(conn);
  else if (has_begun) conn_close(conn);
  if (has_begun) return;
  if (!is_users && conn->hub->user->refused) conn->hub->user->refused(conn, status);
  Reply reply = {0};
  reply_begin(&reply, status, &conn->hub->date);
  reply_field(&reply, "Content-Type", "text/plain; charset=utf-8");
  reply_field(&reply, "Connection", "close");
  if (status == 503) reply_field(&reply, "Retry-After", "1");
  reply_length(&reply, strlen(text));
  reply_end(&reply);
  if (!conn->is_head) reply_add(&reply, text, strlen(text));
  bool ok = !reply.failed && bytes_move(&conn->out, &reply.bytes);
  bytes_free(&reply.bytes);
  conn->answer = (Answer){.has_begun = true, .is_done = true};
  conn->client_keeps = true; /* the client may still send */
  conn->phase = PHASE_WHOLE; /* its bytes are not parsed any more */
  if (!ok) conn_close(conn);
}

/* ---- the beginning ---- */

void conn_await_head(Conn *conn) {
  conn->phase = PHASE_HEAD;
  conn->answer = (Answer){0};
  conn->seen = 0;
  conn->has_begun = conn->is_head = false;
  conn->part_error = 0;
  conn->reading = conn->writing = (Pace){.time = conn->hub->limits.idle};
  conn->until = conn->hub->now + conn->hub->limits.idle;
}

Conn *conn_open(Hub *hub, int fd, const Peer *peer, bool is_surplus) {
  Conn *conn = (Conn *)calloc(1, sizeof *conn);
  if (!conn) {
    wire_close(&(Wire){.fd = fd});
    return NULL;
  }
  conn->hub = hub;
  conn->wire = (Wire){.fd = fd, .lib = hub->lib};
  conn->peer = *peer;
  conn->is_surplus = is_surplus;
  conn->client_keeps = true;
  conn_await_head(conn);
  conn->is_greeting = hub->context;
  if (conn->is_greeting) conn->until = hub->now + hub->limits.head;
  if (is_surplus) conn->until = hub->now + LINGER;
  if (hub->context) conn->wire.tls = hub->lib->begin(hub->context, NULL);
  bool ok = !hub->context || conn->wire.tls;
  if (!ok || !poller_add(&hub->poller, &conn->item, fd, POLLER_IN | POLLER_HALF)) {
    wire_close(&conn->wire); /* uncovered: only when memory runs out */
    free(conn);
    return NULL;
  }
  list_append(&hub->conns, &conn->link);
  hub->nconns++;
  if (hub->user->opened) hub->user->opened(conn);
  timers_set(&hub->timers, &conn->timer, conn->until);
  return conn;
}
