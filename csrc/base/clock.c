/* clock.c: see clock.h. */
#include "base/clock.h"

#include <time.h>

int64_t clock_now(const Clock *clock) {
  if (clock->is_virtual) return clock->virtual_ns;
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

void clock_jump(Clock *clock, int64_t ns) {
  if (ns > clock->virtual_ns) clock->virtual_ns = ns;
}
