/* sleep.h: sleeping until a descriptor is readable. */
#ifndef RUNNEL_SLEEP_H
#define RUNNEL_SLEEP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { SLEEP_FDS = 4 }; /* descriptors that a sleep watches */

/* Sleeps, with these signals blocked, until one of the non-negative descriptors is readable, or `ns` have passed,
   unless that is negative. May end earlier. Returns false if only descriptors after the second were readable. */
bool sleep_on(const int fds[SLEEP_FDS], int64_t ns, const sigset_t *blocked);

#endif
