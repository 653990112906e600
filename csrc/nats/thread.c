/* thread.c: the thread of a connection, which connects, and then reads and writes. By default libnats has a reading
   thread, one thread for each subscription, and writes each message at once, or from a further thread. Here it has none
   of these (its "event loop" mode): this thread waits for the socket, lets libnats read from it, and posts the
   messages.

   The Lua thread publishes to libnats' buffer. While messages arrive, it writes the buffer when it has run all ready go
   blocks: one system call for all their messages. If a go block computes for longer, this thread writes, since it
   checks every few ms (Io.ticks) while messages arrive. While none arrive, the Lua thread writes each message at
   once.

   While messages arrive, the Lua thread also reads, whenever it has nothing else to do (Io.reader): that saves a switch
   between threads for each message. This thread then only looks every few ms, and reads what the Lua thread has left.
   With TLS this thread reads everything, since libnats may wait for the rest of a record. */
#include <limits.h>
#include <poll.h>

#include "nats/conn.h"

/* How often the thread checks while messages arrive; and how long it waits for the network before it gives the
   connection up, beyond write_timeout, in ms. */
enum { TICK_MS = 2, GRACE_MS = 1000 };

/* Since when, in ms, a condition holds; 0 if it does not. */
static int64_t since(int64_t before, bool is_so) { return !is_so ? 0 : before ? before : clock_ms(); }

static bool is_over(int64_t start, int64_t ms) { return start && clock_ms() - start >= ms; }

/* How many ms are left until the connection is lost unless bytes arrive. libnats pings the server more often than that,
   and any byte, not only the answer to a ping, shows that the connection is alive. */
static int64_t until_lost(Io *io) { return atomic_load(&io->heard) + io->silence - clock_ms(); }

/* How long the thread may wait, in ms; -1: until an event. */
static int patience(Io *io, bool must_look) {
  if (must_look) return TICK_MS;
  if (atomic_load(&io->fd) < 0) return -1;
  int64_t left = until_lost(io);
  return left < 1 ? 1 : left > INT_MAX ? INT_MAX : (int)left;
}

void thread_read(void *data) {
  Conn *conn = (Conn *)data;
  if (io_read(&conn->io) && sub_take_all(conn)) thread_wake(&conn->io.thread);
}

static void read_and_write(Conn *conn) {
  Io *io = &conn->io;
  int64_t unwritten = 0, full = 0;         /* since when there has been something to write; and the network was full */
  bool is_plain = false, has_more = false; /* there is no TLS; the Lua thread may have left more bytes */
  while (!thread_ends(&io->thread)) {
    bool ticks = atomic_load(&io->ticks), is_full = atomic_load(&io->is_full);
    is_plain = is_plain && !atomic_load(&io->is_new);
    bool lua_reads = io_let_lua_read(conn, ticks && is_plain && !is_full);
    struct pollfd fds[2] = {{.fd = wakeup_fd(io->thread.wakeup), .events = POLLIN},
                            {.fd = atomic_load(&io->fd), .events = (short)(POLLIN | (is_full ? POLLOUT : 0))}};
    int n = has_more ? 0 : poll(fds, lua_reads ? 1 : 2, patience(io, ticks || is_full));
    if (lua_reads && n == 0) n = poll(fds, 2, 0);
    (void)wakeup_consume(io->thread.wakeup);
    bool has_input = n > 0 && fds[1].revents & ~POLLOUT;
    has_more = has_input && lua_reads;
    if (has_input && atomic_exchange(&io->is_new, false)) is_plain = io_is_plain(io);
    if (n > 0 && fds[1].revents) {
      atomic_store(&io->heard, clock_ms()); /* accepting bytes again is a sign of life, too */
      (void)pthread_mutex_lock(&io->lock);
      if (has_input) natsConnection_ProcessReadEvent(io->nc); /* does nothing if the socket is closed */
      if (fds[1].revents & POLLOUT) io_write_some(io);
      (void)pthread_mutex_unlock(&io->lock);
    }
    if (n > 0 && fds[1].revents & POLLNVAL) (void)poll(NULL, 0, TICK_MS); /* libnats has closed it without a callback */
    if (has_input) atomic_store(&io->ticks, true); /* before the Lua thread publishes the answers to the messages */
    bool must_look = sub_take_all(conn);
    if (!events_post(&conn->events)) must_look = true; /* there is no memory */

    bool wants_write = atomic_load(&io->wants_write);
    unwritten = since(unwritten, wants_write && !atomic_load(&io->is_full));
    full = since(full, atomic_load(&io->is_full));
    if (is_over(unwritten, TICK_MS)) atomic_store(&io->must_write, true);
    if (is_over(full, io->write_timeout + GRACE_MS)) io_give_up(io);
    if (!(n > 0 && fds[1].revents) && atomic_load(&io->fd) >= 0 && until_lost(io) <= 0) {
      atomic_store(&io->heard, clock_ms()); /* libnats takes a moment to notice */
      io_give_up(io);
    }
    while (atomic_load(&io->must_write)) { /* the Lua thread leaves it to this one if it finds the lock taken */
      (void)pthread_mutex_lock(&io->lock);
      io_write_some(io);
      (void)pthread_mutex_unlock(&io->lock);
    }
    if (must_look) {
      atomic_store(&io->ticks, true);
    } else if (n == 0 && !wants_write && !atomic_exchange(&io->has_read, false)) {
      atomic_store(&io->ticks, false);
      if (atomic_load(&io->wants_write)) atomic_store(&io->ticks, true); /* it was published before */
    }
  }
}

/* The connection has failed, and Lua may still have to be told so. */
static void wait_for_end(Conn *conn) {
  const Thread *thread = &conn->io.thread;
  while (!thread_ends(thread)) {
    struct pollfd fd = {.fd = wakeup_fd(thread->wakeup), .events = POLLIN};
    (void)poll(&fd, 1, events_post(&conn->events) ? -1 : TICK_MS);
    (void)wakeup_consume(thread->wakeup);
  }
}

void *thread_run(void *data) {
  Conn *conn = (Conn *)data;
  natsConnection *nc = NULL;
  conn->io.self = pthread_self();
  natsStatus s = natsConnection_Connect(&nc, conn->options);
  conn_has_connected(conn, nc, s);
  if (s == NATS_OK) read_and_write(conn);
  else wait_for_end(conn);
  nats_ReleaseThreadMemory();
  return NULL;
}
