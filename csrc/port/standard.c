/* standard.c: see standard.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares O_PATH */
#endif
#include "port/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void standard_reserve(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
      /* So that it cannot be read or written: the error is EBADF, as if it was closed. The lowest free number is `fd`. */
#ifdef O_PATH
    int flags = O_PATH | O_CLOEXEC;
#else
    int flags = (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC;
#endif
    if (open("/dev/null", flags) < 0) return; /* NOLINT(clang-analyzer-unix.StdCLibraryFunctions): it stays open */
  }
}

int standard_avoid(int fd) {
  if (fd < 0 || fd > 2) return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 3), error = errno;
  (void)close(fd);
  errno = error;
  return high;
}

bool standard_has_room(void) {
  int pipes[5][2], made = 0, max = (int)(sizeof pipes / sizeof *pipes);
  while (made < max && pipe(pipes[made]) == 0) made++;
  int error = errno;
  bool has_room = made == max;
  while (made > 0) {
    (void)close(pipes[--made][0]);
    (void)close(pipes[made][1]);
  }
  errno = error;
  return has_room;
}
