/* pace.h: a limit for how slowly a client sends or reads. Its time runs down only while the server waits for the
   client. Each byte adds some time, up to the initial amount. All times are in ns. */
#ifndef RUNNEL_HTTP_PACE_H
#define RUNNEL_HTTP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Pace {
  bool runs;    /* the server waits for the client */
  int64_t time; /* while it runs: when the time is over; otherwise: how much time is left */
} Pace;

/* Starts or stops the time. */
static inline void pace_set(Pace *pace, bool runs, int64_t now) {
  if (pace->runs == runs) return;
  pace->runs = runs;
  pace->time += runs ? now : -now;
}

/* Adds `rate` ns for each byte that was received or sent, up to `most` ns in all. */
static inline void pace_add(Pace *pace, size_t bytes, int64_t rate, int64_t most, int64_t now) {
  int64_t limit = pace->runs ? now + most : most, time = pace->time + (int64_t)bytes * rate;
  pace->time = time < limit ? time : limit;
}

/* Whether the time is over. */
static inline bool pace_is_over(const Pace *pace, int64_t now) { return pace->runs && now >= pace->time; }

#endif
