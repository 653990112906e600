/* part.c: see part.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares preadv2 */
#endif
#include "http/server/part.h"

#include <errno.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/uio.h>
#include <sys/vfs.h>
#endif

void part_close(Part *part) {
  if (part->is_open) (void)close(part->fd);
  *part = (Part){0};
}

ptrdiff_t part_wait(int fd, char *to, size_t max, off_t at) {
  ssize_t n;
  do n = pread(fd, to, max, at);
  while (n < 0 && errno == EINTR);
  return n;
}

#if defined(__linux__) && defined(RWF_NOWAIT)

/* Whether the file is in a file system that has all of its bytes in memory. */
static bool is_in_memory(int fd) {
  enum { TMPFS = 0x01021994, RAMFS = (int)0x858458f6 };
  struct statfs stat;
  return fstatfs(fd, &stat) == 0 && ((int)stat.f_type == TMPFS || (int)stat.f_type == RAMFS);
}

ptrdiff_t part_read(int fd, char *to, size_t max, off_t at) {
  ssize_t n;
  do n = preadv2(fd, &(struct iovec){to, max}, 1, at, RWF_NOWAIT);
  while (n < 0 && errno == EINTR);
  if (n >= 0 || errno == EAGAIN) return n;
  if ((errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM) && is_in_memory(fd)) return part_wait(fd, to, max, at);
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM) errno = EAGAIN;
  return -1;
}

#else

ptrdiff_t part_read(int fd, char *to, size_t max, off_t at) {
  (void)fd;
  (void)to;
  (void)max;
  (void)at;
  errno = EAGAIN;
  return -1;
}

#endif
