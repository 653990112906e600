/* part.c: see part.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): for in_memory.h */
#endif
#include "http/server/part.h"

#include "port/in_memory.h"

void part_close(Part *part) {
  if (part->is_open) (void)close(part->fd);
  *part = (Part){0};
}

ptrdiff_t part_wait(int fd, char *to, size_t max, off_t at) { return in_memory_wait(fd, to, max, at); }

ptrdiff_t part_read(int fd, char *to, size_t max, off_t at) {
  ptrdiff_t n = in_memory_read(fd, to, max, at);
  if (n < 0 && errno == EOPNOTSUPP) errno = EAGAIN;
  return n;
}
