/* io.c: the thread of a connection, which connects, and then reads and writes. libnats would have a thread that reads,
   one for each subscription, and write each message at once, or from one more thread. Here it has none of these (its
   "event loop" mode): this thread waits for the socket, lets libnats read from it, and posts the messages.

   What the Lua thread publishes goes to libnats' buffer. While messages arrive, the Lua thread writes the buffer when it
   has run all go blocks that were ready: one system call for all that they have published. Should a go block compute for
   longer, this thread writes, since it looks every few ms (Io.ticks) as long as messages arrive. While none arrive, the
   Lua thread writes each message at once. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#ifdef __linux__
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

#include "nats/conn.h"

/* How often the thread looks while messages arrive; and how long it waits for the network before it gives the connection
   up, beyond write_timeout, in ms. */
enum { TICK_MS = 2, GRACE_MS = 1000 };

/* From so many bytes on, what the Lua thread has published is written at once; it waits for the network if libnats has
   more than the second number. */
enum { WRITE_SIZE = 32 * 1024, BACKLOG = 1024 * 1024 };

static void set_fd(Io *io, int fd) {
  (void)pthread_mutex_lock(&io->fd_lock);
  atomic_store(&io->fd, fd);
  (void)pthread_mutex_unlock(&io->fd_lock);
}

/* Ends a connection that accepts no bytes, or sends none: the thread's next read finds that out, and libnats connects anew. */
static void give_up(Io *io) {
  (void)pthread_mutex_lock(&io->fd_lock);
  int fd = atomic_load(&io->fd);
  if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
  (void)pthread_mutex_unlock(&io->fd_lock);
}

/* ---- called by libnats, which holds the connection's lock, but for on_detach ---- */

/* There is a socket, of the first or of a new connection. */
static natsStatus on_attach(void **data, void *loop, natsConnection *nc, natsSock fd) {
  Conn *conn = (Conn *)loop;
  Io *io = &conn->io;
  if (!*data) {
    *data = conn;
    atomic_fetch_add(&conn->holds, 1); /* until on_detach */
    (void)pthread_mutex_lock(&conn->lock);
    conn->is_attached = true;
    (void)pthread_mutex_unlock(&conn->lock);
  }
  io->nc = nc;
  atomic_store(&io->wants_write, false);
  atomic_store(&io->is_full, false);
  atomic_store(&io->heard, clock_ms());
  set_fd(io, fd);
  thread_wake(&io->thread);
  return NATS_OK;
}

/* The socket is about to be closed. (libnats never asks to add reading: attaching does.) */
static natsStatus on_read(void *data, bool add) {
  if (!add) set_fd(&((Conn *)data)->io, -1);
  return NATS_OK;
}

/* There is something to write, or not any more. */
static natsStatus on_write(void *data, bool add) {
  Io *io = &((Conn *)data)->io;
  atomic_store(&io->wants_write, add);
  if (!add) atomic_store(&io->is_full, false);
  if (!add || atomic_load(&io->lua_publishes)) return NATS_OK;
  atomic_store(&io->must_write, true);
  if (!pthread_equal(pthread_self(), io->self)) thread_wake(&io->thread);
  return NATS_OK;
}

/* The connection is closed for good. */
static natsStatus on_detach(void *data) {
  Conn *conn = (Conn *)data;
  thread_wake(&conn->io.thread); /* subscriptions have ended */
  (void)pthread_mutex_lock(&conn->lock);
  conn->is_attached = false;
  (void)pthread_cond_broadcast(&conn->changed);
  (void)pthread_mutex_unlock(&conn->lock);
  conn_release(conn);
  return NATS_OK;
}

/* ---- writing ---- */

/* Writes what libnats has, as far as the network accepts it. With `lock` held. */
static void write_some(Io *io) {
  atomic_store(&io->must_write, false); /* first, so that a request that comes meanwhile is not lost */
  if (!atomic_load(&io->wants_write)) return;
  natsConnection_ProcessWriteEvent(io->nc); /* must not be called with an empty buffer */
  atomic_store(&io->is_full, atomic_load(&io->wants_write));
}

/* In the Lua thread: writes; or leaves it to the connection's thread, if that is reading or writing now, and returns
   false. With TLS that may hold the lock until more bytes arrive; without, waiting for the lock would cost more than the
   write. */
static bool write_now(Io *io) {
  io->unsent = 0;
  atomic_store(&io->must_write, true);
  if (pthread_mutex_trylock(&io->lock) != 0) return false; /* it looks at must_write afterwards */
  sigset_t old;
  signals_block(&old); /* for the thread that libnats starts if the connection is found lost */
  write_some(io);
  signals_restore(&old);
  bool is_full = atomic_load(&io->is_full);
  (void)pthread_mutex_unlock(&io->lock);
  if (is_full) thread_wake(&io->thread); /* it waits until there is room */
  return true;
}

/* In the Lua thread: waits for room in the network, but not for long, and writes. If the connection's thread has the
   lock, lets it run: on a busy machine, that thread may not have had a processor since. */
static void wait_and_write(Io *io) {
  struct pollfd fd = {.fd = atomic_load(&io->fd), .events = POLLOUT};
  (void)poll(&fd, 1, TICK_MS);
  if (!write_now(io)) (void)poll(NULL, 0, TICK_MS);
}

/* In the Lua thread: waits until libnats has less than BACKLOG bytes. */
static natsStatus wait_for_network(Conn *conn) {
  Io *io = &conn->io;
  int64_t until = clock_ms() + io->write_timeout;
  while (atomic_load(&io->fd) >= 0 && natsConnection_Buffered(conn->nc) > BACKLOG) {
    if (clock_ms() >= until) {
      give_up(io);
      return NATS_TIMEOUT;
    }
    wait_and_write(io);
  }
  return NATS_OK;
}

/* runnel_task.run: the Lua thread has nothing else to do. */
void io_write_published(void *data) {
  Io *io = &((Conn *)data)->io;
  if (atomic_load(&io->wants_write)) (void)write_now(io);
}

void io_publish(Conn *conn) { atomic_store(&conn->io.lua_publishes, true); }

natsStatus io_published(lua_State *L, Conn *conn, size_t size) {
  Io *io = &conn->io;
  atomic_store(&io->lua_publishes, false);
  if (!atomic_load(&io->wants_write)) return NATS_OK; /* the connection's thread has written it; or it is lost */
  io->unsent += size;
  bool may_wait = io->unsent < WRITE_SIZE && !atomic_load(&io->is_full);
  if (may_wait && io->collects && !atomic_exchange(&io->ticks, true)) thread_wake(&io->thread);
  if (may_wait && atomic_load(&io->ticks)) {
    if (io->task.list || conn->rn->task_add(L, &io->task) == RUNNEL_OK || io->collects) return NATS_OK;
  }
  (void)write_now(io);
  return atomic_load(&io->is_full) ? wait_for_network(conn) : NATS_OK;
}

void io_write(Conn *conn) {
  Io *io = &conn->io;
  atomic_store(&io->lua_publishes, false);
  if (atomic_load(&io->wants_write)) (void)write_now(io);
}

/* How many bytes libnats has to write, and the system has not yet brought to the server's machine. */
static size_t count_unsent(Conn *conn) {
  Io *io = &conn->io;
  int buffered = atomic_load(&io->wants_write) ? natsConnection_Buffered(conn->nc) : 0, queued = 0;
#ifdef __linux__
  (void)pthread_mutex_lock(&io->fd_lock);
  if (atomic_load(&io->fd) < 0 || ioctl(atomic_load(&io->fd), SIOCOUTQ, &queued) != 0) queued = 0;
  (void)pthread_mutex_unlock(&io->fd_lock);
#endif
  return (size_t)(buffered > 0 ? buffered : 0) + (size_t)queued;
}

size_t io_finish(Conn *conn) {
  Io *io = &conn->io;
  (void)conn->rn->task_cancel(&io->task);
  int64_t until = clock_ms() + io->write_timeout;
  if (atomic_load(&io->wants_write)) (void)write_now(io);
  for (;;) {
    if (atomic_load(&conn->outbox.is_lost)) return outbox_bytes(&conn->outbox); /* libnats may hold its lock for long */
    if (!atomic_load(&io->wants_write) || atomic_load(&io->fd) < 0 || clock_ms() >= until) break;
    wait_and_write(io);
  }
  size_t left = count_unsent(conn);
  if (left == 0) return 0;
  /* What the system has accepted is not safe yet: if the server sends anything to a socket that is closed, the system
     drops what it still has. The answer to a ping shows that the server has read everything. */
  int64_t rest = until - clock_ms();
  if (natsConnection_FlushTimeout(conn->nc, rest > 0 ? rest : 1) == NATS_OK) return 0;
  return atomic_load(&io->fd) >= 0 ? count_unsent(conn) : left;
}

/* ---- the thread ---- */

/* Since when, in ms, something is so; 0 if it is not. */
static int64_t since(int64_t before, bool is_so) { return !is_so ? 0 : before ? before : clock_ms(); }

static bool is_over(int64_t start, int64_t ms) { return start && clock_ms() - start >= ms; }

/* How many ms are left until the connection is lost unless it sends something. libnats pings the server more often than
   that, and any byte that comes, not only the answer to a ping, shows that the connection is alive. */
static int64_t until_lost(Io *io) { return atomic_load(&io->heard) + io->silence - clock_ms(); }

/* How long the thread may wait, in ms; -1: until something happens. */
static int patience(Io *io, bool must_look) {
  if (must_look) return TICK_MS;
  if (atomic_load(&io->fd) < 0) return -1;
  int64_t left = until_lost(io);
  return left < 1 ? 1 : left > INT_MAX ? INT_MAX : (int)left;
}

static void read_and_write(Conn *conn) {
  Io *io = &conn->io;
  int64_t unwritten = 0, full = 0; /* since when there has been something to write; and the network was full */
  while (!thread_ends(&io->thread)) {
    bool ticks = atomic_load(&io->ticks), is_full = atomic_load(&io->is_full);
    struct pollfd fds[2] = {{.fd = wakeup_fd(io->thread.wakeup), .events = POLLIN},
                            {.fd = atomic_load(&io->fd), .events = (short)(POLLIN | (is_full ? POLLOUT : 0))}};
    int n = poll(fds, 2, patience(io, ticks || is_full));
    (void)wakeup_consume(io->thread.wakeup);
    bool has_input = n > 0 && fds[1].revents & ~POLLOUT;
    if (n > 0 && fds[1].revents) {
      atomic_store(&io->heard, clock_ms()); /* that it accepts bytes again is a sign, too */
      (void)pthread_mutex_lock(&io->lock);
      if (has_input) natsConnection_ProcessReadEvent(io->nc); /* does nothing if the socket is closed */
      if (fds[1].revents & POLLOUT) write_some(io);
      (void)pthread_mutex_unlock(&io->lock);
    }
    if (n > 0 && fds[1].revents & POLLNVAL) (void)poll(NULL, 0, TICK_MS); /* libnats has closed it without a callback */
    if (has_input) atomic_store(&io->ticks, true); /* before the Lua thread publishes what the messages lead to */
    bool must_look = sub_take_all(conn);

    bool wants_write = atomic_load(&io->wants_write);
    unwritten = since(unwritten, wants_write && !atomic_load(&io->is_full));
    full = since(full, atomic_load(&io->is_full));
    if (is_over(unwritten, TICK_MS)) atomic_store(&io->must_write, true);
    if (is_over(full, io->write_timeout + GRACE_MS)) give_up(io);
    if (!(n > 0 && fds[1].revents) && atomic_load(&io->fd) >= 0 && until_lost(io) <= 0) {
      atomic_store(&io->heard, clock_ms()); /* libnats takes a moment to notice */
      give_up(io);
    }
    while (atomic_load(&io->must_write)) { /* the Lua thread leaves it to this one if it finds the lock taken */
      (void)pthread_mutex_lock(&io->lock);
      write_some(io);
      (void)pthread_mutex_unlock(&io->lock);
    }
    if (must_look) {
      atomic_store(&io->ticks, true);
    } else if (n == 0 && !wants_write) {
      atomic_store(&io->ticks, false);
      if (atomic_load(&io->wants_write)) atomic_store(&io->ticks, true); /* it was published before */
    }
  }
}

static void *run(void *data) {
  Conn *conn = (Conn *)data;
  natsConnection *nc = NULL;
  conn->io.self = pthread_self();
  natsStatus s = natsConnection_Connect(&nc, conn->options);
  events_connected(conn, nc, s);
  if (s == NATS_OK) read_and_write(conn);
  nats_ReleaseThreadMemory();
  return NULL;
}

void io_set_options(Conn *conn) {
  (void)natsOptions_SetSendAsap(conn->options, true);       /* no thread that writes */
  (void)natsOptions_SetMaxPingsOut(conn->options, INT_MAX); /* the thread here decides: until_lost */
  (void)natsOptions_SetEventLoop(conn->options, conn, on_attach, on_read, on_write, on_detach);
}

int io_start(Conn *conn) { return thread_start(&conn->io.thread, "runnel-nats", run, conn); }

void io_end(Conn *conn) {
  (void)conn->rn->task_cancel(&conn->io.task);
  thread_end(&conn->io.thread);
}

bool io_open(Io *io) {
  (void)pthread_mutex_init(&io->lock, NULL);
  (void)pthread_mutex_init(&io->fd_lock, NULL);
  atomic_init(&io->fd, -1);
  return thread_open(&io->thread);
}

void io_free(Io *io) {
  thread_close(&io->thread);
  (void)pthread_mutex_destroy(&io->lock);
  (void)pthread_mutex_destroy(&io->fd_lock);
}
