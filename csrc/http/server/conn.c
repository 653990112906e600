/* conn.c: see conn.h. */
#include "http/server/conn.h"

#include <sys/socket.h>

/* How long a client that has closed its side of the connection waits for a response, from the head of its request. Most
   of them have gone. */
static const int64_t GRACE = 100 * CLOCK_MS;

/* For how long, but no longer than it may be idle, and how many bytes, a client may go on sending when the server has
   ended the connection. */
static const int64_t LINGER = 2000 * CLOCK_MS;
enum { LINGER_BYTES = 1 << 20 };

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* Whether bytes wait to be sent. */
static bool is_writing(const Conn *conn) { return bytes_length(&conn->out) || !wire_is_flushed(&conn->wire); }

/* ---- the end ---- */

static void end_request(Conn *conn, Ending ending) {
  if (!conn->request) return;
  conn->hub->user->ended(conn, ending);
  conn->request = NULL;
}

void conn_close(Conn *conn) {
  Hub *hub = conn->hub;
  if (conn->is_closed) return;
  end_request(conn, END_GONE);
  if (hub->user->closed) hub->user->closed(conn);
  conn->is_closed = true;
  timers_remove(&hub->timers, &conn->timer);
  poller_remove(&hub->poller, &conn->item);
  if (conn->resets)
    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
  wire_close(&conn->wire);
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

/* Everything has been sent: waits until the client has read it, which a close at once could prevent. */
static void linger(Conn *conn) {
  wire_end(&conn->wire);
  size_t sent;
  bool ok = wire_send(&conn->wire, &conn->out, &sent);
  bool is_silent = !conn->client_keeps && conn->phase == PHASE_WHOLE && bytes_length(&conn->in) == 0;
  bool is_over = (conn->is_half || is_silent) && !wire_has_unread(&conn->wire);
  if (!ok || is_over || shutdown(conn->wire.fd, SHUT_WR) != 0) {
    conn_close(conn);
    return;
  }
  conn->phase = PHASE_LINGER;
  conn->left = LINGER_BYTES;
  conn->until = conn->hub->now + earlier(LINGER, conn->hub->limits.idle);
  bytes_free(&conn->in);
}

void conn_refuse(Conn *conn, unsigned status, const char *text, Ending ending) {
  bool has_begun = conn->is_answered, is_sent = conn->is_done && !is_writing(conn);
  conn->keeps = false;
  end_request(conn, ending);
  if (has_begun && is_sent) linger(conn);
  else if (has_begun) conn_close(conn);
  if (has_begun) return;
  Reply reply = {0};
  reply_begin(&reply, status, &conn->hub->date);
  reply_field(&reply, "Content-Type", "text/plain; charset=utf-8");
  reply_field(&reply, "Connection", "close");
  if (status == 503) reply_field(&reply, "Retry-After", "1");
  reply_length(&reply, strlen(text));
  reply_end(&reply);
  reply_add(&reply, text, strlen(text));
  bool ok = !reply.failed && bytes_add(&conn->out, bytes_first(&reply.bytes), bytes_length(&reply.bytes));
  bytes_free(&reply.bytes);
  conn->is_answered = conn->is_done = true;
  conn->client_keeps = true; /* it may still send */
  conn->phase = PHASE_WHOLE; /* which is not read any more */
  if (!ok) conn_close(conn);
}

static void refuse_head(Conn *conn, int status) {
  const char *text = status == 431   ? "431: the headers are too long\n"
                     : status == 501 ? "501: the method or the transfer coding is not known\n"
                     : status == 505 ? "505: this is a server of HTTP/1.1\n"
                     : status == 417 ? "417: the header Expect may be 100-continue\n"
                                     : "400: this is no request of HTTP/1.1\n";
  conn_refuse(conn, (unsigned)status, text, END_WRONG);
}

/* ---- what comes ---- */

static void await_head(Conn *conn) {
  conn->phase = PHASE_HEAD;
  conn->is_answered = conn->is_done = conn->is_cut = conn->resets = conn->upgrades = false;
  conn->seen = 0;
  conn->has_begun = false;
  conn->until = conn->hub->now + conn->hub->limits.idle;
}

/* The head is complete. */
static void begin(Conn *conn, const Head *head) {
  Hub *hub = conn->hub;
  conn->requests++;
  conn->has_body = head->is_chunked || head->length > 0;
  conn->client_keeps = head->keeps;
  conn->keeps = head->keeps && !hub->drains && conn->requests < hub->limits.requests;
  conn->expects = head->expects && conn->has_body;
  conn->received = 0;
  conn->left = head->length;
  conn->chunks = (Chunks){0};
  conn->since = hub->now;
  conn->reading = conn->writing = (Pace){.time = hub->limits.idle};
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

/* Gives the user bytes of the body, or drops them if the request has ended; returns how many are taken. */
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
  Slice piece;
  Chunks before = conn->chunks;
  ptrdiff_t n = chunks_parse(&conn->chunks, bytes, size, &piece);
  if (n < 0) {
    conn_refuse(conn, 400, "400: the body is not in chunks\n", END_WRONG);
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
    (void)chunks_parse(&conn->chunks, bytes, done, &piece);
    return done;
  }
  if (chunks_are_complete(&conn->chunks)) complete_body(conn);
  return (size_t)n;
}

/* What a client sends after the end of a connection. */
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

/* Takes bytes while the phase allows it; returns how many were taken. */
static size_t take(Conn *conn, const char *bytes, size_t size) {
  size_t all = 0, n;
  do {
    Phase phase = conn->phase;
    n = all < size ? take_some(conn, bytes + all, size - all) : 0;
    all += n;
    if (n == 0 && conn->phase == phase) break;
  } while (!conn->is_closed && all < size);
  return all;
}

/* Takes what waits in `in`. */
static void take_waiting(Conn *conn) {
  if (bytes_length(&conn->in) == 0) return;
  size_t n = take(conn, bytes_first(&conn->in), bytes_length(&conn->in));
  if (conn->is_closed || bytes_length(&conn->in) == 0) return;
  conn->in.from += n;
  if (bytes_length(&conn->in) == 0) bytes_free(&conn->in);
}

/* Whether bytes are wanted: in a body, only once the user has taken those before. */
static bool wants_input(const Conn *conn) {
  return conn->phase == PHASE_HEAD || (conn->phase != PHASE_WHOLE && bytes_length(&conn->in) == 0);
}

/* The client sends no more. */
static void end_input(Conn *conn) {
  conn->is_half = true;
  if (conn->phase == PHASE_RAW) complete_body(conn);
  else conn_close(conn); /* a request is incomplete, or there is none */
}

/* Bytes have come from the client, or gone to it. */
static void progress(const Conn *conn, Pace *pace, size_t bytes) {
  const Limits *limits = &conn->hub->limits;
  pace_add(pace, bytes, limits->rate, limits->idle, conn->hub->now);
}

/* The connection is broken. A failed session of TLS says why to the client. */
static void lose(Conn *conn) {
  size_t sent;
  if (conn->wire.has_failed) (void)wire_send(&conn->wire, &conn->out, &sent);
  conn_close(conn);
}

static void receive(Conn *conn) {
  Hub *hub = conn->hub;
  ptrdiff_t n = wire_receive(&conn->wire, hub->block, CONN_BLOCK, &conn->has_more);
  if (n == WIRE_END) end_input(conn);
  if (n == WIRE_LOST) lose(conn);
  if (n <= 0) return;
  progress(conn, &conn->reading, (size_t)n);
  bool has_waiting = bytes_length(&conn->in) > 0;
  size_t taken = has_waiting ? 0 : take(conn, hub->block, (size_t)n);
  if (conn->is_closed) return;
  if (!bytes_add(&conn->in, hub->block + taken, (size_t)n - taken)) {
    conn_close(conn);
    return;
  }
  if (has_waiting) take_waiting(conn);
}

/* ---- what goes ---- */

/* Sends what there is. */
static void flush(Conn *conn) {
  Hub *hub = conn->hub;
  bool has_flushed;
  do {
    size_t sent;
    if (bytes_length(&conn->out) == 0 && conn->request && !conn->is_done) hub->user->pull(conn);
    if (conn->is_closed) return;
    if (!wire_send(&conn->wire, &conn->out, &sent)) {
      conn_close(conn);
      return;
    }
    progress(conn, &conn->writing, sent);
    has_flushed = sent > 0 && bytes_length(&conn->out) == 0;
  } while (has_flushed && conn->request && !conn->is_done);
}

/* The response changes the protocol. */
static void upgrade(Conn *conn) {
  conn->upgrades = false;
  conn->is_raw = true;
  conn->keeps = false;
  conn->phase = PHASE_RAW;
}

/* Ends the request if its response has been sent; true if there may be more to do. */
static bool finish(Conn *conn) {
  if (!conn->is_done || conn->phase == PHASE_HEAD || conn->phase == PHASE_LINGER) return false;
  if (is_writing(conn)) return false;
  if (conn->is_cut) {
    conn_close(conn);
    return false;
  }
  conn->resets = false;
  end_request(conn, END_COMPLETE);
  if (!conn->keeps || conn->expects) {
    linger(conn);
    return false;
  }
  if (conn->phase != PHASE_WHOLE) return bytes_length(&conn->in) || conn->has_more; /* the rest is dropped first */
  await_head(conn);
  return true;
}

/* ---- waiting ---- */

static bool is_reading(const Conn *conn) {
  return (conn->phase == PHASE_LENGTH || conn->phase == PHASE_CHUNKS) && wants_input(conn);
}

/* Whether a client that sends no more is thought to have gone after the time of grace. */
static bool may_be_gone(const Conn *conn) {
  return conn->is_half && conn->request && !conn->is_raw && !is_reading(conn) && !(conn->is_done && is_writing(conn));
}

/* When to look at it. */
static int64_t due(const Conn *conn) {
  const Limits *limits = &conn->hub->limits;
  int64_t when = INT64_MAX;
  if (conn->phase == PHASE_HEAD || conn->phase == PHASE_LINGER) when = conn->until;
  if (conn->request && !conn->is_answered && limits->request) when = earlier(when, conn->since + limits->request);
  if (may_be_gone(conn)) when = earlier(when, conn->since + GRACE);
  if (conn->reading.runs) when = earlier(when, conn->reading.time);
  if (conn->writing.runs) when = earlier(when, conn->writing.time);
  return when;
}

/* What it waits for from now on. A socket from which nothing is wanted stays watched for reading until something comes
   after all: that is rare, and saves two calls of the system for each request. */
static void settle(Conn *conn) {
  Hub *hub = conn->hub;
  bool writes = is_writing(conn), reads = wants_input(conn);
  if (conn->phase == PHASE_HEAD && !conn->has_begun && !conn_is_idle(conn)) {
    conn->has_begun = true;
    conn->until = hub->now + hub->limits.head;
  }
  if (conn->is_greeting && conn->wire.lib->is_ready(conn->wire.tls)) { /* only now a request can begin */
    conn->is_greeting = false;
    if (!conn->has_begun) conn->until = hub->now + hub->limits.idle;
  }
  pace_set(&conn->reading, is_reading(conn), hub->now);
  if (writes && !conn->writing.runs) conn->unread = wire_unacknowledged(&conn->wire);
  pace_set(&conn->writing, writes, hub->now);
  unsigned wanted = conn->item.wanted & POLLER_IN;
  if (reads) wanted = POLLER_IN;
  if (writes) wanted |= POLLER_OUT;
  if (!conn->is_half) wanted |= POLLER_HALF;
  poller_want(&hub->poller, &conn->item, wanted);
  timers_set(&hub->timers, &conn->timer, due(conn));
}

void conn_go_on(Conn *conn) {
  if (conn->is_closed) return;
  do {
    take_waiting(conn);
    while (!conn->is_closed && conn->has_more && wants_input(conn)) receive(conn);
    if (!conn->is_closed) flush(conn);
    if (!conn->is_closed && conn->upgrades && !conn->is_raw) {
      upgrade(conn);
      take_waiting(conn);
    }
  } while (!conn->is_closed && finish(conn));
  if (!conn->is_closed) settle(conn);
}

void conn_event(Conn *conn, unsigned bits) {
  if (conn->is_closed) return;
  if (bits & POLLER_GONE) {
    conn_close(conn);
    return;
  }
  if (bits & POLLER_HALF) conn->is_half = true;
  if (bits & POLLER_IN) {
    if (wants_input(conn)) receive(conn);
    else poller_want(&conn->hub->poller, &conn->item, conn->item.wanted & ~(unsigned)POLLER_IN);
  }
  conn_go_on(conn);
}

/* ---- time ---- */

/* Whether the client reads, though so slowly that the socket takes no more bytes yet. */
static bool reads_slowly(Conn *conn) {
  size_t before = conn->unread;
  conn->unread = wire_unacknowledged(&conn->wire);
  if (conn->unread >= before) return false;
  progress(conn, &conn->writing, before - conn->unread);
  return !pace_is_over(&conn->writing, conn->hub->now);
}

void conn_look(Conn *conn) {
  const Limits *limits = &conn->hub->limits;
  int64_t now = conn->hub->now;
  bool is_over = (conn->phase == PHASE_HEAD || conn->phase == PHASE_LINGER) && now >= conn->until;
  bool is_late = conn->request && !conn->is_answered && limits->request && now >= conn->since + limits->request;
  bool has_gone = may_be_gone(conn) && now >= conn->since + GRACE;
  bool reads_nothing = pace_is_over(&conn->writing, now) && !reads_slowly(conn);
  if (is_over && conn->phase == PHASE_HEAD && !conn_is_idle(conn))
    conn_refuse(conn, 408, "408: the headers have not come in time\n", END_GONE);
  else if (is_over || has_gone || reads_nothing) conn_close(conn);
  else if (pace_is_over(&conn->reading, now)) conn_refuse(conn, 408, "408: the body has not come in time\n", END_SLOW);
  else if (is_late) conn_refuse(conn, 503, "503: the answer took too long\n", END_LATE);
  conn_go_on(conn);
}

/* ---- the beginning ---- */

Conn *conn_open(Hub *hub, int fd, const Peer *peer, bool is_surplus) {
  Conn *conn = (Conn *)calloc(1, sizeof *conn);
  if (!conn) {
    (void)wire_close(&(Wire){.fd = fd});
    return NULL;
  }
  conn->hub = hub;
  conn->wire = (Wire){.fd = fd, .lib = hub->lib};
  conn->peer = *peer;
  conn->is_surplus = is_surplus;
  conn->client_keeps = true;
  conn->reading = conn->writing = (Pace){.time = hub->limits.idle};
  await_head(conn);
  conn->is_greeting = hub->context;
  if (conn->is_greeting) conn->until = hub->now + hub->limits.head;
  if (is_surplus) conn->until = hub->now + LINGER;
  bool ok = poller_add(&hub->poller, &conn->item, fd, POLLER_IN | POLLER_HALF);
  if (ok && hub->context) conn->wire.tls = hub->lib->begin(hub->context, NULL);
  if (!ok || (hub->context && !conn->wire.tls)) {
    if (ok) poller_remove(&hub->poller, &conn->item);
    wire_close(&conn->wire);
    free(conn);
    return NULL;
  }
  list_append(&hub->conns, &conn->link);
  hub->nconns++;
  if (hub->user->opened) hub->user->opened(conn);
  timers_set(&hub->timers, &conn->timer, conn->until);
  return conn;
}
