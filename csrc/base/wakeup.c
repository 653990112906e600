/* wakeup.c: see wakeup.h.

   There is no lock: a signalling thread would hold it while the scheduler, already awake, waits for it. Instead `state`
   says which thread writes or reads. The thread that changes it from IDLE to SIGNALLED writes a token. The scheduler
   reads the token, and then changes the state back to IDLE; so there is one token at most. If it looks before the token
   is written, it changes the state to COMING, and the token ends one of its waits later.

   A child that goes on after a fork gets descriptors of its own (wakeup_own): it shares the parent's until then. */
#include "base/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/eventfd.h>
#define HAVE_EVENTFD
#endif

enum {
  IDLE,      /* no signal, and no token */
  SIGNALLED, /* the scheduler has not seen the signal; the token is there, or about to be written */
  COMING,    /* the scheduler has seen the signal; the token is about to be written, or there */
  READING    /* the scheduler handles the set, and signals afterwards: they need no token */
};

struct Wakeup {
  atomic_uint references; /* number of references */
  atomic_int state;       /* see above */
  int read_end;           /* readable while there is a token */
  int write_end;          /* for writing the token; the same descriptor if it is an eventfd */
  atomic_int process;     /* whose descriptors these are; 0: being replaced by those of a child */
  WakeupMore more;        /* what else to wait for */
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
  *wakeup = (Wakeup){.read_end = ends[0], .write_end = ends[1]};
  atomic_init(&wakeup->process, (int)getpid());
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
  if (wakeup->more.set) wakeup->more.set->free(wakeup->more.set);
  free(wakeup);
}

static void write_token(const Wakeup *wakeup) {
  int error = errno;
  const Token token = 1;
  while (write(wakeup->write_end, &token, sizeof token) < 0 && errno == EINTR) continue;
  errno = error;
}

bool wakeup_replace(int fd, int old) {
  bool ok = dup2(fd, old) == old && fcntl(old, F_SETFD, FD_CLOEXEC) == 0;
  (void)close(fd);
  return ok;
}

/* In the child of a fork: see wakeup_own. There may be news, of the parent or since then: it gets a token. */
static void renew(Wakeup *wakeup) {
  int ends[2];
  if (!open_both(ends)) return;
  if (ends[1] != ends[0]) (void)wakeup_replace(ends[1], wakeup->write_end);
  (void)wakeup_replace(ends[0], wakeup->read_end);
  if (wakeup->more.set) wakeup->more.set->renew(wakeup->more.set, wakeup->read_end);
  atomic_store(&wakeup->state, SIGNALLED);
  write_token(wakeup);
}

void wakeup_own(Wakeup *wakeup) {
  int self = (int)getpid(), of;
  while ((of = atomic_load(&wakeup->process)) != self) {
    if (of == 0 || !atomic_compare_exchange_strong(&wakeup->process, &of, 0)) {
      (void)sched_yield();
      continue;
    }
    renew(wakeup);
    atomic_store(&wakeup->process, self);
  }
}

void wakeup_signal(Wakeup *wakeup) {
  if (atomic_exchange(&wakeup->state, SIGNALLED) != IDLE) return; /* there is a token */
  wakeup_own(wakeup);
  write_token(wakeup);
}

/* Reads the token; false if it has not been written yet. */
static bool read_token(const Wakeup *wakeup) {
  Token token;
  ssize_t n;
  do n = read(wakeup->read_end, &token, sizeof token);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

/* Handles the set; returns whether there may be news afterwards. */
static bool consume_set(Wakeup *wakeup) {
  int expected = IDLE;
  bool is_idle = atomic_compare_exchange_strong(&wakeup->state, &expected, READING);
  bool has_called = wakeup->more.set->call(wakeup->more.set);
  return (is_idle && atomic_exchange(&wakeup->state, IDLE) == SIGNALLED) || has_called;
}

bool wakeup_consume(Wakeup *wakeup) {
  wakeup_own(wakeup);
  bool has_read = wakeup->more.set && consume_set(wakeup);
  if (atomic_load_explicit(&wakeup->state, memory_order_relaxed) == IDLE) return has_read;
  /* The exchange comes last: after it, the scheduler sees everything written before the signal. */
  int before = atomic_exchange(&wakeup->state, read_token(wakeup) ? IDLE : COMING);
  return before == SIGNALLED || has_read;
}

bool wakeup_is_pending(const Wakeup *wakeup) {
  return atomic_load_explicit(&wakeup->state, memory_order_relaxed) == SIGNALLED;
}

int wakeup_fd(Wakeup *wakeup) {
  wakeup_own(wakeup);
  return wakeup->more.set ? wakeup->more.set->fd : wakeup->read_end;
}

WakeupMore *wakeup_more(Wakeup *wakeup) { return &wakeup->more; }
