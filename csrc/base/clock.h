/* clock.h: monotonic time in nanoseconds, real or virtual. */
#ifndef RUNNEL_CLOCK_H
#define RUNNEL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds in a millisecond, the unit of times in Lua. */
#define CLOCK_MS INT64_C(1000000)

typedef struct Clock {
  bool is_virtual;    /* only clock_jump moves the time */
  int64_t virtual_ns; /* the time while is_virtual */
} Clock;

/* The time in ns: of the monotonic system clock, or the virtual time. */
int64_t clock_now(const Clock *clock);

/* The time of the monotonic system clock, in ns and in ms. Any thread. */
static inline int64_t clock_ns(void) { return clock_now(&(Clock){0}); }
static inline int64_t clock_ms(void) { return clock_ns() / CLOCK_MS; }

/* Moves virtual time forward to `ns`; never back. */
void clock_jump(Clock *clock, int64_t ns);

/* The time `ns` (0 or more) after `now`; at most INT64_MAX, which means never. */
static inline int64_t clock_after(int64_t now, int64_t ns) { return ns < INT64_MAX - now ? now + ns : INT64_MAX; }

/* The deadline of a timer of `ns` from now: with a real clock, `now` is rounded up to a full ms. Such a clock advances
   between any two calls: without rounding, no two requests would ever share a timeout. Timers with one deadline are also
   faster, since they need no sorting. Virtual time needs no rounding. */
static inline int64_t clock_due(const Clock *clock, int64_t ns) {
  int64_t now = clock_now(clock);
  return clock_after(clock->is_virtual ? now : (now + CLOCK_MS - 1) / CLOCK_MS * CLOCK_MS, ns);
}

#endif
