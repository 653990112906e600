/* in_memory.h: reads of a file that do not wait for a disk. A header, so that modules have it, too, which are not linked
   with the core. A file that includes it defines _GNU_SOURCE on Linux before it includes anything, for preadv2. */
#ifndef RUNNEL_IN_MEMORY_H
#define RUNNEL_IN_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/uio.h>
#include <sys/vfs.h>
#endif

/* Reads at most `max` bytes at offset `at`; -1: at the file's own position, which moves on. Waits. Returns their number;
   0 at the end of the file; -1, with errno, on failure. */
static inline ptrdiff_t in_memory_wait(int fd, char *to, size_t max, off_t at) {
  ssize_t n;
  do n = at < 0 ? read(fd, to, max) : pread(fd, to, max, at);
  while (n < 0 && errno == EINTR);
  return n;
}

#if defined(__linux__) && defined(RWF_NOWAIT)

/* Whether the file is in a file system that has all of its bytes in memory. */
static inline bool in_memory_always(int fd) {
  enum { TMPFS = 0x01021994, RAMFS = (int)0x858458f6 };
  struct statfs stat;
  return fstatfs(fd, &stat) == 0 && ((int)stat.f_type == TMPFS || (int)stat.f_type == RAMFS);
}

/* The same for bytes that the system has in memory. Fails with EAGAIN if reading them may wait for a disk or a network,
   and with EOPNOTSUPP if the system cannot tell. */
static inline ptrdiff_t in_memory_read(int fd, char *to, size_t max, off_t at) {
  ssize_t n;
  do n = preadv2(fd, &(struct iovec){to, max}, 1, at, RWF_NOWAIT);
  while (n < 0 && errno == EINTR);
  if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM)) return n;
  if (in_memory_always(fd)) return in_memory_wait(fd, to, max, at);
  errno = EOPNOTSUPP;
  return -1;
}

#else

static inline ptrdiff_t in_memory_read(int fd, char *to, size_t max, off_t at) {
  (void)fd;
  (void)to;
  (void)max;
  (void)at;
  errno = EOPNOTSUPP;
  return -1;
}

#endif

#endif
