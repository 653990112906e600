/* cond.h: condition variables whose waits have deadlines, by the clock that never steps. */
#ifndef RUNNEL_BASE_COND_H
#define RUNNEL_BASE_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#if defined(__APPLE__)
#define COND_CLOCK CLOCK_REALTIME /* there is no choice */
#else
#define COND_CLOCK CLOCK_MONOTONIC
#endif

/* Initializes a condition variable for waits until a time of COND_CLOCK. */
static inline void cond_init(pthread_cond_t *cond) {
  pthread_condattr_t attributes;
  (void)pthread_condattr_init(&attributes);
#if !defined(__APPLE__)
  (void)pthread_condattr_setclock(&attributes, COND_CLOCK);
#endif
  (void)pthread_cond_init(cond, &attributes);
  (void)pthread_condattr_destroy(&attributes);
}

/* The time of COND_CLOCK in `ns`, for pthread_cond_timedwait. */
static inline struct timespec cond_after(int64_t ns) {
  struct timespec until;
  (void)clock_gettime(COND_CLOCK, &until);
  int64_t rest = until.tv_nsec + ns % 1000000000;
  until.tv_sec += (time_t)(ns / 1000000000 + rest / 1000000000);
  until.tv_nsec = (long)(rest % 1000000000);
  return until;
}

#endif
