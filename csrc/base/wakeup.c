/* wakeup.c: see wakeup.h.

   There is no lock: a signalling thread would hold it while the scheduler, already awake, waits for it. Instead `state`
   says which thread writes or reads. The thread that changes it from IDLE to SIGNALLED writes a token. The scheduler
   reads the token, and then changes the state back to IDLE; so there is one token at most. If it looks before the token
   is written, it changes the state to COMING, and the token ends one of its waits later.

   Once there is a reader, the scheduler waits for a set (epoll) of the token and the readers' descriptors. */
#include "base/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/eventfd.h>
#define HAVE_EVENTFD
#endif

enum {
  IDLE,      /* no signal, and no token */
  SIGNALLED, /* the scheduler has not seen the signal; the token is there, or about to be written */
  COMING,    /* the scheduler has seen the signal; the token is about to be written, or there */
  READING    /* the scheduler calls readers, and handles signals afterwards: they need no token */
};

/* What Wakeup.set is without a set: not made yet; never to be made. */
enum { NO_SET = -1, NEVER = -2 };

struct Wakeup {
  atomic_uint references; /* number of references */
  atomic_int state;       /* see above */
  int read_end;           /* readable while there is a token */
  int write_end;          /* for writing the token; the same descriptor if it is an eventfd */
  int set;                /* of epoll, with `read_end` and the descriptors of readers; or NO_SET or NEVER */
};

/* Closes the descriptors without changing errno. */
static void close_both(const int ends[2]) {
  int error = errno;
  (void)close(ends[0]);
  if (ends[1] != ends[0]) (void)close(ends[1]);
  errno = error;
}

#ifdef HAVE_EVENTFD
/* Linux: when a thread writes to a pipe, the kernel assumes that the writer is about to wait, and prefers to wake the
   reader on the writer's processor. For an eventfd it prefers an idle processor. */
static bool open_both(int ends[2]) {
  ends[0] = ends[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return ends[0] >= 0;
}

typedef uint64_t Token;
#else
static bool open_both(int ends[2]) {
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) {
    if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[i], F_SETFL, O_NONBLOCK) == 0) continue;
    close_both(ends);
    return false;
  }
  return true;
}

typedef char Token;
#endif

Wakeup *wakeup_new(void) {
  int ends[2];
  if (!open_both(ends)) return NULL;
  Wakeup *wakeup = (Wakeup *)malloc(sizeof *wakeup);
  if (!wakeup) {
    close_both(ends);
    errno = ENOMEM;
    return NULL;
  }
  *wakeup = (Wakeup){.read_end = ends[0], .write_end = ends[1], .set = NO_SET};
  atomic_init(&wakeup->references, 1);
  atomic_init(&wakeup->state, IDLE);
  return wakeup;
}

Wakeup *wakeup_hold(Wakeup *wakeup) {
  atomic_fetch_add_explicit(&wakeup->references, 1, memory_order_relaxed);
  return wakeup;
}

void wakeup_release(Wakeup *wakeup) {
  if (atomic_fetch_sub_explicit(&wakeup->references, 1, memory_order_acq_rel) > 1) return;
  close_both((const int[2]){wakeup->read_end, wakeup->write_end});
  if (wakeup->set >= 0) (void)close(wakeup->set);
  free(wakeup);
}

void wakeup_signal(Wakeup *wakeup) {
  if (atomic_exchange(&wakeup->state, SIGNALLED) != IDLE) return; /* there is a token */
  int error = errno;
  const Token token = 1;
  while (write(wakeup->write_end, &token, sizeof token) < 0 && errno == EINTR) continue;
  errno = error;
}

/* Reads the token; false if it has not been written yet. */
static bool read_token(const Wakeup *wakeup) {
  Token token;
  ssize_t n;
  do n = read(wakeup->read_end, &token, sizeof token);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

/* ---- readers ---- */

#ifdef HAVE_EVENTFD

/* How many descriptors are handled at a time. */
enum { AT_ONCE = 16 };

static bool add_to_set(int set, int fd, Reader *reader) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = reader};
  return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool wakeup_reads(Wakeup *wakeup) {
  if (wakeup->set != NO_SET) return wakeup->set >= 0;
  int set = epoll_create1(EPOLL_CLOEXEC);
  if (set < 0) return false;
  if (add_to_set(set, wakeup->read_end, NULL)) wakeup->set = set;
  else (void)close(set); /* uncovered: no memory */
  return wakeup->set >= 0;
}

bool reader_watch(Reader *reader, int fd) {
  if (fd == reader->fd) return true;
  if (reader->fd >= 0) (void)epoll_ctl(reader->wakeup->set, EPOLL_CTL_DEL, reader->fd, &(struct epoll_event){0});
  reader->fd = fd >= 0 && add_to_set(reader->wakeup->set, fd, reader) ? fd : -1;
  return fd < 0 || reader->fd >= 0;
}

/* Calls the readers whose descriptors can be read; returns whether there were any. */
static bool call_readers(const Wakeup *wakeup) {
  struct epoll_event ready[AT_ONCE];
  int n = epoll_wait(wakeup->set, ready, AT_ONCE, 0);
  bool has_called = false;
  for (int i = 0; i < n; i++) {
    Reader *reader = (Reader *)ready[i].data.ptr;
    if (!reader) continue; /* the token */
    has_called = true;
    reader->ready(reader->data);
  }
  return has_called;
}

#else

bool wakeup_reads(Wakeup *wakeup) { return wakeup->set >= 0; } /* there is no set */
bool reader_watch(Reader *reader, int fd) { return fd == reader->fd; }
static bool call_readers(const Wakeup *wakeup) { return wakeup->set >= 0; }

#endif

/* Calls the readers; returns whether there may be news afterwards. */
static bool consume_set(Wakeup *wakeup) {
  int expected = IDLE;
  bool is_idle = atomic_compare_exchange_strong(&wakeup->state, &expected, READING);
  bool has_called = call_readers(wakeup);
  return (is_idle && atomic_exchange(&wakeup->state, IDLE) == SIGNALLED) || has_called;
}

bool wakeup_consume(Wakeup *wakeup) {
  bool has_read = wakeup->set >= 0 && consume_set(wakeup);
  if (atomic_load_explicit(&wakeup->state, memory_order_relaxed) == IDLE) return has_read;
  /* The exchange comes last: after it, the scheduler sees everything written before the signal. */
  int before = atomic_exchange(&wakeup->state, read_token(wakeup) ? IDLE : COMING);
  return before == SIGNALLED || has_read;
}

bool wakeup_is_pending(const Wakeup *wakeup) {
  return atomic_load_explicit(&wakeup->state, memory_order_relaxed) == SIGNALLED;
}

int wakeup_fd(const Wakeup *wakeup) { return wakeup->set >= 0 ? wakeup->set : wakeup->read_end; }

int wakeup_lasting_fd(Wakeup *wakeup) {
  if (!wakeup_reads(wakeup)) wakeup->set = NEVER;
  return wakeup_fd(wakeup);
}
