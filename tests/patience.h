/* patience.h: limits of waits in the programs of tests/. A limit is meant for an idle machine, and grows with the load,
   as those of the specs do (spec/support/patience.lua). */
#ifndef RUNNEL_TEST_PATIENCE_H
#define RUNNEL_TEST_PATIENCE_H

#include <fcntl.h>
#include <unistd.h>

/* How many programs share a processor, by the load of the last minute; at least 1. Also for signal handlers. */
static inline unsigned patience_factor(long processors) {
  char text[16];
  int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
  if (fd >= 0) (void)close(fd);
  unsigned load = 0;
  for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++) load = 10 * load + (unsigned)(text[i] - '0');
  unsigned each = processors > 0 ? (unsigned)processors : 1;
  return load > each ? load / each : 1;
}

static inline long patience_processors(void) { return sysconf(_SC_NPROCESSORS_ONLN); }

#endif
