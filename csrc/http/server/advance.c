/* advance.c: does all that is possible now on a connection, and decides what to wait for. */
#include "http/server/conn.h"

#include <errno.h>

/* How long the server goes on with a request whose client has closed its sending side, from the head of the request.
   Most such clients have closed the whole connection. */
static const int64_t GRACE = 100 * CLOCK_MS;

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- what goes ---- */

/* How many blocks of a file a connection sends in a row, before others have their turn. */
enum { BLOCKS = 2 };

/* Reading the file of the response has failed. The response is cut: its length was promised. */
static void cut_part(Conn *conn, int error) {
  part_close(&conn->part);
  conn->part_error = error;
  conn->answer.is_cut = true;
}

/* The next block of the file is not there: it is to be read by the loader, or cannot be. */
static void miss_block(Conn *conn, int error) {
  Hub *hub = conn->hub;
  bool is_slow = error == EAGAIN;
  if (is_slow) conn->load = loader_add(&hub->loader, hub->wakeup, conn, &conn->part);
  if (!conn->load) cut_part(conn, is_slow ? ENOMEM : error);
}

/* Sends what comes before the file, and its next block, as much as the socket takes: in one call, since each costs both
   ends more than the bytes do. Returns the number of bytes, or -1 if the connection is broken. */
static ptrdiff_t send_block(Conn *conn) {
  char *block = conn->hub->block;
  Part *part = &conn->part;
  size_t before = bytes_length(&conn->out), max = FILE_BLOCK - before;
  if (before > CONN_BLOCK) return wire_send(&conn->wire, &conn->out);
  if (part->left < max) max = (size_t)part->left;
  ptrdiff_t n = part_read(part->fd, block + before, max, part->at);
  if (n <= 0) {
    miss_block(conn, n == 0 ? -1 : errno);
    return wire_send(&conn->wire, &conn->out);
  }
  memcpy(block, bytes_first(&conn->out), before);
  Bytes bytes = {.start = block, .to = before + (size_t)n}; /* without a capacity, so that its memory is not freed */
  ptrdiff_t sent = wire_send(&conn->wire, &bytes);
  if (sent < 0) return -1;
  size_t of_file = (size_t)sent > before ? (size_t)sent - before : 0;
  bytes_drop(&conn->out, (size_t)sent - of_file);
  part->at += (off_t)of_file;
  part->left -= of_file;
  if (!part->left) part_close(part);
  return sent;
}

/* Sends bytes and blocks of the file. Returns as send_block. */
static ptrdiff_t send_part(Conn *conn) {
  ptrdiff_t all = 0;
  for (int i = 0; i < BLOCKS && conn->part.is_open; i++) {
    ptrdiff_t sent = send_block(conn);
    if (sent < 0) return -1;
    if (sent == 0) break;
    all += sent;
  }
  return all;
}

void advance_load(Load *load) {
  Conn *conn = (Conn *)load->owner;
  if (conn) {
    conn->load = NULL;
    conn->part = load->part;
    load->part = (Part){0};
    bool ok = bytes_move(&conn->out, &load->bytes);
    if (load->error || !ok) cut_part(conn, ok ? load->error : ENOMEM);
    else if (!conn->part.left) part_close(&conn->part);
    advance(conn);
  }
  load_free(load);
}

static void flush(Conn *conn) {
  Hub *hub = conn->hub;
  bool has_flushed;
  do {
    if (bytes_length(&conn->out) == 0 && conn->request && !conn->answer.is_done) hub->user->pull(conn);
    if (conn->is_closed) return;
    ptrdiff_t sent = conn->part.is_open ? send_part(conn) : wire_send(&conn->wire, &conn->out);
    if (sent < 0) {
      conn_close(conn); /* seldom covered: the client was lost after the poller was asked */
      return;
    }
    conn_progress(conn, &conn->writing, (size_t)sent);
    has_flushed = sent > 0 && bytes_length(&conn->out) == 0;
  } while (has_flushed && conn->request && !conn->answer.is_done);
}

/* Switches to the other protocol, after a response with status 101. */
static void upgrade(Conn *conn) {
  conn->is_raw = true;
  listen_limit_unread(conn->wire.fd, 0); /* its own pings tell whether the client is there */
  conn->keeps = false;
  conn->phase = PHASE_RAW;
}

/* Ends the request if its whole response has been sent. Returns true if another request may have arrived. */
static bool finish(Conn *conn) {
  if (!conn->answer.is_done || conn->phase == PHASE_HEAD || conn->phase == PHASE_LINGER) return false;
  if (conn_is_writing(conn)) return false;
  if (conn->answer.is_cut) {
    conn_refuse(conn, 500, "500: the server has failed\n", END_FAILED);
    return !conn->is_closed;
  }
  conn_end_request(conn, END_COMPLETE);
  if (!conn->keeps || conn->answer.closes || conn->expects) {
    conn_linger(conn);
    return false;
  }
  if (conn->phase != PHASE_WHOLE) return bytes_length(&conn->in) || conn->has_more; /* the rest is dropped first */
  conn_await_head(conn);
  return true;
}

/* ---- waiting ---- */

static bool is_reading(const Conn *conn) {
  return (conn->phase == PHASE_LENGTH || conn->phase == PHASE_CHUNKS) && input_is_wanted(conn);
}

/* Whether the client has closed its sending side, so that it counts as gone when GRACE is over. */
static bool may_be_gone(const Conn *conn) {
  return conn->is_half && conn->request && !conn->is_raw && !is_reading(conn) &&
         !(conn->answer.is_done && conn_is_writing(conn));
}

static int64_t due(const Conn *conn) {
  const Limits *limits = &conn->hub->limits;
  int64_t when = INT64_MAX;
  if (conn->phase == PHASE_HEAD || conn->phase == PHASE_LINGER) when = conn->until;
  if (conn->request && !conn->answer.has_begun && limits->request) when = earlier(when, conn->since + limits->request);
  if (may_be_gone(conn)) when = earlier(when, conn->since + GRACE);
  if (conn->reading.runs) when = earlier(when, conn->reading.time);
  if (conn->writing.runs) when = earlier(when, conn->writing.time);
  return when;
}

/* Sets what the connection waits for. If no input is wanted, the poller still watches the socket for input until some
   arrives. That is rare, and saves two system calls for each request. */
static void settle(Conn *conn) {
  Hub *hub = conn->hub;
  bool reads = input_is_wanted(conn);
  bool writes = conn_is_writing(conn) && !(conn->load && bytes_length(&conn->out) == 0 && wire_is_flushed(&conn->wire));
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

void advance(Conn *conn) {
  if (conn->is_closed) return;
  do {
    input_take(conn);
    while (!conn->is_closed && (conn->has_more || conn->is_shut) && input_is_wanted(conn)) input_receive(conn);
    if (!conn->is_closed) flush(conn);
    if (!conn->is_closed && conn->answer.upgrades && !conn->is_raw) {
      upgrade(conn);
      input_take(conn);
    }
  } while (!conn->is_closed && finish(conn));
  if (!conn->is_closed) settle(conn);
}

void advance_event(Conn *conn, unsigned bits) {
  if (conn->is_closed) return;
  if (bits & POLLER_GONE) {
    conn_close(conn);
    return;
  }
  if (bits & (POLLER_HALF | POLLER_SHUT)) conn->is_half = true;
  if (bits & POLLER_SHUT) { /* as when the client of a Unix socket has closed it: its last request may be unread */
    conn->is_shut = true;
    poller_remove(&conn->hub->poller, &conn->item);
  }
  if (bits & POLLER_IN) {
    if (input_is_wanted(conn)) input_receive(conn);
    else poller_want(&conn->hub->poller, &conn->item, conn->item.wanted & ~(unsigned)POLLER_IN);
  }
  advance(conn);
}

/* ---- time ---- */

/* Whether the client does read, but so slowly that the socket cannot take more bytes yet. */
static bool reads_slowly(Conn *conn) {
  size_t before = conn->unread;
  conn->unread = wire_unacknowledged(&conn->wire);
  if (conn->unread >= before) return false;
  /* seldom covered: only if the system's buffers have taken from the client in time, but have no room for a write */
  conn_progress(conn, &conn->writing, before - conn->unread);
  return !pace_is_over(&conn->writing, conn->hub->now);
}

void advance_timer(Conn *conn) {
  const Limits *limits = &conn->hub->limits;
  int64_t now = conn->hub->now;
  bool is_over = (conn->phase == PHASE_HEAD || conn->phase == PHASE_LINGER) && now >= conn->until;
  bool is_late = conn->request && !conn->answer.has_begun && limits->request && now >= conn->since + limits->request;
  if (is_late && bytes_length(&conn->out) == 0) { /* unless the user has just given it */
    conn->hub->user->pull(conn);
    is_late = !conn->answer.has_begun;
  }
  bool has_gone = may_be_gone(conn) && now >= conn->since + GRACE;
  bool reads_nothing = pace_is_over(&conn->writing, now) && !reads_slowly(conn);
  if (reads_nothing)
    conn->answer.resets = true; /* otherwise the system would keep the rest until the client has read it */
  if (is_over && conn->phase == PHASE_HEAD && !conn_is_idle(conn))
    conn_refuse(conn, 408, "408: the headers did not arrive in time\n", END_GONE);
  else if (is_over || has_gone || reads_nothing) conn_close(conn);
  else if (pace_is_over(&conn->reading, now))
    conn_refuse(conn, 408, "408: the body did not arrive in time\n", END_SLOW);
  else if (is_late) conn_refuse(conn, 503, "503: the answer took too long\n", END_LATE);
  advance(conn);
}
