/* bell.c: see bell.h. */
#include "port/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct Bell {
  atomic_uint holds;    /* who may still use it */
  pthread_mutex_t lock; /* makes one of `rung` and what is in the pipe */
  atomic_bool rung; /* there is a byte in the pipe; read without the lock only to see whether it is worth taking it */
  int read_end;     /* readable while it is rung */
  int write_end;    /* where the byte goes in */
};

static void close_both(const int ends[2]) {
  int error = errno;
  (void)close(ends[0]);
  (void)close(ends[1]);
  errno = error;
}

Bell *bell_new(void) {
  int ends[2];
  if (pipe(ends) != 0) return NULL;
  for (int i = 0; i < 2; i++) {
    if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[i], F_SETFL, O_NONBLOCK) == 0) continue;
    close_both(ends);
    return NULL;
  }
  Bell *bell = (Bell *)malloc(sizeof *bell);
  if (!bell) {
    close_both(ends);
    errno = ENOMEM;
    return NULL;
  }
  *bell = (Bell){.read_end = ends[0], .write_end = ends[1]};
  atomic_init(&bell->holds, 1);
  atomic_init(&bell->rung, false);
  (void)pthread_mutex_init(&bell->lock, NULL);
  return bell;
}

Bell *bell_hold(Bell *bell) {
  atomic_fetch_add_explicit(&bell->holds, 1, memory_order_relaxed);
  return bell;
}

void bell_release(Bell *bell) {
  if (atomic_fetch_sub_explicit(&bell->holds, 1, memory_order_acq_rel) > 1) return;
  close_both((const int[2]){bell->read_end, bell->write_end});
  (void)pthread_mutex_destroy(&bell->lock);
  free(bell);
}

void bell_ring(Bell *bell) {
  int error = errno;
  (void)pthread_mutex_lock(&bell->lock);
  if (!atomic_load(&bell->rung)) {
    atomic_store(&bell->rung, true);
    while (write(bell->write_end, "", 1) < 0 && errno == EINTR) continue;
  }
  (void)pthread_mutex_unlock(&bell->lock);
  errno = error;
}

bool bell_heard(Bell *bell) {
  if (!bell_is_rung(bell)) return false;
  char byte;
  (void)pthread_mutex_lock(&bell->lock);
  while (read(bell->read_end, &byte, 1) < 0 && errno == EINTR) continue;
  atomic_store(&bell->rung, false);
  (void)pthread_mutex_unlock(&bell->lock);
  return true;
}

bool bell_is_rung(const Bell *bell) { return atomic_load_explicit(&bell->rung, memory_order_relaxed); }

int bell_fd(const Bell *bell) { return bell->read_end; }
