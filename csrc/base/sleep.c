/* sleep.c: see sleep.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares ppoll */
#endif
#include "base/sleep.h"

#include <poll.h>
#include <stddef.h>
#include <sys/select.h>

#include "base/clock.h"

#if defined(__linux__) || defined(__FreeBSD__) || defined(__OpenBSD__)

bool sleep_on(const int fds[SLEEP_FDS], int64_t ns, const sigset_t *blocked) {
  struct pollfd polled[SLEEP_FDS];
  struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
  for (int i = 0; i < SLEEP_FDS; i++) polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
  return ppoll(polled, SLEEP_FDS, ns < 0 ? NULL : &ts, blocked) <= 0 || polled[0].revents || polled[1].revents;
}

#else

/* For a descriptor that is too large for pselect: the longest sleep, since a signal may fail to end it. */
enum { MAX_WAIT_NO_SIGNALS_MS = 100 };

bool sleep_on(const int fds[SLEEP_FDS], int64_t ns, const sigset_t *blocked) {
  struct pollfd polled[SLEEP_FDS];
  struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
  fd_set readable;
  int highest = -1;
  for (int i = 0; i < SLEEP_FDS; i++) {
    polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    if (fds[i] > highest) highest = fds[i];
  }
  if (highest >= FD_SETSIZE) {
    const int64_t longest = MAX_WAIT_NO_SIGNALS_MS * CLOCK_MS;
    if (ns < 0 || ns > longest) ns = longest;
    int n = poll(polled, SLEEP_FDS, (int)((ns + CLOCK_MS - 1) / CLOCK_MS));
    return n <= 0 || polled[0].revents || polled[1].revents;
  }
  FD_ZERO(&readable);
  for (int i = 0; i < SLEEP_FDS; i++) {
    if (fds[i] >= 0) FD_SET(fds[i], &readable);
  }
  if (pselect(highest + 1, &readable, NULL, NULL, ns < 0 ? NULL : &ts, blocked) <= 0) return true;
  return (fds[0] >= 0 && FD_ISSET(fds[0], &readable)) || (fds[1] >= 0 && FD_ISSET(fds[1], &readable));
}

#endif
