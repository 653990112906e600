/* io.c: writes to the network, by the Lua thread and by the connection's thread (thread.c); reads in the Lua thread; and
   libnats' callbacks for that. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#ifdef __linux__
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

#include "nats/conn.h"

/* How long the Lua thread waits for the network at a time, in ms. */
enum { WAIT_MS = 2 };

/* From the first number of bytes on, the Lua thread writes published bytes at once; it waits for the network if libnats
   has more than the second number. */
enum { WRITE_SIZE = 32 * 1024, BACKLOG = 1024 * 1024 };

/* Returns the one before. */
static int set_fd(Conn *conn, int fd) {
  Io *io = &conn->io;
  (void)pthread_mutex_lock(&io->fd_lock);
  if (io->reader) (void)conn->rn->reader_watch(io->reader, -1);
  int before = atomic_exchange(&io->fd, fd);
  (void)pthread_mutex_unlock(&io->fd_lock);
  return before;
}

void io_give_up(Io *io) {
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
    (void)handle_hold(conn); /* until on_detach */
    (void)pthread_mutex_lock(&conn->lock);
    conn->is_attached = true;
    (void)pthread_mutex_unlock(&conn->lock);
  }
  io->nc = nc;
  atomic_store(&io->wants_write, false);
  atomic_store(&io->is_full, false);
  atomic_store(&io->heard, clock_ms());
  atomic_store(&io->is_new, true);
  /* A child process that outlives this one would keep the connection open, and with it the requests for messages: the
     server would deliver messages to a process that has ended. */
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)set_fd(conn, fd);
  thread_wake(&io->thread);
  return NATS_OK;
}

/* The socket is not needed any more. (libnats never asks to add reading: attaching does that.) Since version 3.9.2 of
   libnats the event loop closes it; before, libnats closes it after this call. If the Lua thread has found the connection
   lost, libnats then starts a thread in it, which must get no signals. */
static natsStatus on_read(void *data, bool add) {
  Io *io = &((Conn *)data)->io;
  if (add) return NATS_OK; /* uncovered: see above */
  natsSock fd = set_fd((Conn *)data, -1);
#if NATS_VERSION_NUMBER >= 0x030902
  natsConnection_ProcessCloseEvent(&fd);
#else
  (void)fd;
#endif
  if (!atomic_load(&io->lua_writes) || !pthread_equal(pthread_self(), atomic_load(&io->lua))) return NATS_OK;
  if (io->blocks_signals) return NATS_OK; /* seldom covered: it was about to be closed before */
  signals_block(&io->signals);
  io->blocks_signals = true;
  return NATS_OK;
}

/* There are bytes to write, or none any more. */
static natsStatus on_write(void *data, bool add) {
  Io *io = &((Conn *)data)->io;
  atomic_store(&io->wants_write, add);
  if (!add) atomic_store(&io->is_full, false);
  if (!add || atomic_load(&io->lua_publishes)) return NATS_OK;
  atomic_store(&io->must_write, true);
  if (!pthread_equal(pthread_self(), io->self)) thread_wake(&io->thread);
  return NATS_OK;
}

/* The connection is closed for good. Since version 3.11 of libnats the event loop then gives up a hold of its own. */
static natsStatus on_detach(void *data) {
  Conn *conn = (Conn *)data;
#if NATS_VERSION_NUMBER >= 0x030b00
  natsConnection_ProcessDetachedEvent(conn->io.nc);
#endif
  thread_wake(&conn->io.thread); /* subscriptions have ended */
  (void)pthread_mutex_lock(&conn->lock);
  conn->is_attached = false;
  (void)pthread_cond_broadcast(&conn->changed);
  (void)pthread_mutex_unlock(&conn->lock);
  handle_release(conn);
  return NATS_OK;
}

/* ---- writing ---- */

void io_write_some(Io *io) {
  atomic_store(&io->must_write, false); /* first, so that a later request is not lost */
  if (!atomic_load(&io->wants_write)) return;
  natsConnection_ProcessWriteEvent(io->nc); /* must not be called with an empty buffer */
  atomic_store(&io->is_full, atomic_load(&io->wants_write));
}

/* In the Lua thread, before and after a call of libnats that may find the connection lost. */
static void begin_call(Io *io) {
  atomic_store(&io->lua, pthread_self());
  atomic_store(&io->lua_writes, true);
}

static void end_call(Io *io) {
  atomic_store(&io->lua_writes, false);
  if (io->blocks_signals) signals_restore(&io->signals);
  io->blocks_signals = false;
}

/* In the Lua thread: writes; or leaves that to the connection's thread, if it is reading or writing now, and returns
   false. With TLS that thread may hold the lock until more bytes arrive; without TLS, waiting for the lock would cost
   more than the write. */
static bool write_now(Io *io) {
  io->unsent = 0;
  atomic_store(&io->must_write, true);
  if (pthread_mutex_trylock(&io->lock) != 0) return false; /* it checks must_write afterwards */
  begin_call(io);
  io_write_some(io);
  end_call(io);
  bool is_full = atomic_load(&io->is_full);
  (void)pthread_mutex_unlock(&io->lock);
  if (is_full) thread_wake(&io->thread); /* it waits until there is room */
  return true;
}

/* In the Lua thread: waits for room in the network, but not for long, and writes. If the connection's thread has the
   lock, lets it run: on a busy machine, it may not have had a processor since. */
static void wait_and_write(Io *io) {
  struct pollfd fd = {.fd = atomic_load(&io->fd), .events = POLLOUT};
  (void)poll(&fd, 1, WAIT_MS);
  if (!write_now(io)) (void)poll(NULL, 0, WAIT_MS);
}

/* In the Lua thread: waits until libnats has less than BACKLOG bytes. */
static natsStatus wait_for_network(Conn *conn) {
  Io *io = &conn->io;
  int64_t until = clock_ms() + io->write_timeout;
  while (atomic_load(&io->fd) >= 0 && natsConnection_Buffered(conn->nc) > BACKLOG) {
    if (clock_ms() >= until) {
      io_give_up(io);
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

/* How many bytes libnats has to write, and the system has not yet delivered to the server's machine. */
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
  size_t left = 0; /* unsent bytes, as long as the connection was not lost */
  if (atomic_load(&io->wants_write)) (void)write_now(io);
  for (;;) {
    if (atomic_load(&conn->outbox.is_lost)) return left + outbox_bytes(&conn->outbox); /* libnats may hold its lock */
    if (atomic_load(&io->fd) >= 0) left = count_unsent(conn);
    if (!atomic_load(&io->wants_write) || atomic_load(&io->fd) < 0 || clock_ms() >= until) break;
    wait_and_write(io);
  }
  if (left == 0 || atomic_load(&io->fd) < 0) return left;
  /* Bytes in the system's buffers are not safe yet: if the server sends anything to a closed socket, the system drops
     them. The answer to a ping shows that the server has read everything. */
  int64_t rest = until - clock_ms();
  if (natsConnection_FlushTimeout(conn->nc, rest > 0 ? rest : 1) == NATS_OK) return 0;
  return atomic_load(&io->fd) >= 0 ? count_unsent(conn) : left;
}

/* ---- reading ---- */

bool io_is_plain(Io *io) {
  char first = 0;
  return recv(atomic_load(&io->fd), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
         first >= ' '; /* TLS begins with 20 to 23 */
}

bool io_let_lua_read(Conn *conn, bool lets) {
  Io *io = &conn->io;
  if (!io->reader) return false;
  (void)pthread_mutex_lock(&io->fd_lock);
  int fd = lets ? atomic_load(&io->fd) : -1;
  bool reads = conn->rn->reader_watch(io->reader, fd) == RUNNEL_OK && fd >= 0;
  (void)pthread_mutex_unlock(&io->fd_lock);
  return reads;
}

bool io_read(Io *io) {
  if (pthread_mutex_trylock(&io->lock) != 0) return false; /* the connection's thread reads */
  begin_call(io);
  if (atomic_load(&io->fd) >= 0) natsConnection_ProcessReadEvent(io->nc);
  end_call(io);
  (void)pthread_mutex_unlock(&io->lock);
  atomic_store(&io->heard, clock_ms());
  atomic_store(&io->has_read, true);
  return true;
}

void io_set_options(Conn *conn) {
  (void)natsOptions_SetSendAsap(conn->options, true);       /* no thread that writes */
  (void)natsOptions_SetMaxPingsOut(conn->options, INT_MAX); /* this module decides: until_lost */
  (void)natsOptions_SetEventLoop(conn->options, conn, on_attach, on_read, on_write, on_detach);
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
