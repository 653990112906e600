/* task.c: see task.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares syscall */
#endif
#include "monitor/task.h"

#if defined(__linux__)
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

int task_self(void) { return (int)syscall(SYS_gettid); }

bool task_waits(int task) {
  char text[256];
  (void)snprintf(text, sizeof text, "/proc/self/task/%d/stat", task);
  int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  const char *end = strrchr(text, ')'); /* of the name, which may contain anything; the state follows */
  return end && end[1] == ' ' && (end[2] == 'S' || end[2] == 'D');
}
#else
int task_self(void) { return 0; }

bool task_waits(int task) {
  (void)task;
  return false;
}
#endif
