/* pace.h: a limit for how slowly a client sends or reads. Its time runs only while the server waits for the client, and
   each byte adds some, up to what there was at first. All times in ns. */
#ifndef RUNNEL_HTTP_PACE_H
#define RUNNEL_HTTP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Pace {
  bool runs;    /* the server waits */
  int64_t time; /* when that has been too long; while it does not run, how much time is left */
} Pace;

/* Makes the time run, or stops it. */
static inline void pace_set(Pace *pace, bool runs, int64_t now) {
  if (pace->runs == runs) return;
  pace->runs = runs;
  pace->time += runs ? now : -now;
}

/* Bytes have come or gone, each of which is worth `rate`; there may be at most `most` left. */
static inline void pace_add(Pace *pace, size_t bytes, int64_t rate, int64_t most, int64_t now) {
  int64_t limit = pace->runs ? now + most : most, time = pace->time + (int64_t)bytes * rate;
  pace->time = time < limit ? time : limit;
}

/* Whether the time is over. */
static inline bool pace_is_over(const Pace *pace, int64_t now) { return pace->runs && now >= pace->time; }

#endif
