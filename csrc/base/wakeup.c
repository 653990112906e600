/* wakeup.c: see wakeup.h. */
#include "base/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct Wakeup {
  atomic_uint references; /* how many hold it */
  pthread_mutex_t lock;   /* keeps `pending` and the pipe's content in step */
  atomic_bool pending;    /* there is a byte in the pipe; read without the lock as a first, cheap check */
  int read_end;           /* readable while a signal is pending */
  int write_end;          /* where the byte is written */
};

/* Closes a pipe without changing errno. */
static void close_both(const int ends[2]) {
  int error = errno;
  (void)close(ends[0]);
  (void)close(ends[1]);
  errno = error;
}

Wakeup *wakeup_new(void) {
  int ends[2];
  if (pipe(ends) != 0) return NULL;
  for (int i = 0; i < 2; i++) {
    if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[i], F_SETFL, O_NONBLOCK) == 0) continue;
    close_both(ends); /* uncovered: the system has made a pipe, and then refuses to set its flags */
    return NULL;
  }
  Wakeup *wakeup = (Wakeup *)malloc(sizeof *wakeup);
  if (!wakeup) {
    close_both(ends);
    errno = ENOMEM;
    return NULL;
  }
  *wakeup = (Wakeup){.read_end = ends[0], .write_end = ends[1]};
  atomic_init(&wakeup->references, 1);
  atomic_init(&wakeup->pending, false);
  (void)pthread_mutex_init(&wakeup->lock, NULL);
  return wakeup;
}

Wakeup *wakeup_hold(Wakeup *wakeup) {
  atomic_fetch_add_explicit(&wakeup->references, 1, memory_order_relaxed);
  return wakeup;
}

void wakeup_release(Wakeup *wakeup) {
  if (atomic_fetch_sub_explicit(&wakeup->references, 1, memory_order_acq_rel) > 1) return;
  close_both((const int[2]){wakeup->read_end, wakeup->write_end});
  (void)pthread_mutex_destroy(&wakeup->lock);
  free(wakeup);
}

void wakeup_signal(Wakeup *wakeup) {
  int error = errno;
  (void)pthread_mutex_lock(&wakeup->lock);
  if (!atomic_load(&wakeup->pending)) {
    atomic_store(&wakeup->pending, true);
    while (write(wakeup->write_end, "", 1) < 0 && errno == EINTR) continue;
  }
  (void)pthread_mutex_unlock(&wakeup->lock);
  errno = error;
}

bool wakeup_consume(Wakeup *wakeup) {
  if (!wakeup_is_pending(wakeup)) return false;
  char byte;
  (void)pthread_mutex_lock(&wakeup->lock);
  while (read(wakeup->read_end, &byte, 1) < 0 && errno == EINTR) continue;
  atomic_store(&wakeup->pending, false);
  (void)pthread_mutex_unlock(&wakeup->lock);
  return true;
}

bool wakeup_is_pending(const Wakeup *wakeup) { return atomic_load_explicit(&wakeup->pending, memory_order_relaxed); }

int wakeup_fd(const Wakeup *wakeup) { return wakeup->read_end; }
