/* windows.h: finds a pending timeout that can be shared. Time is divided into windows of 10 ms. For each window with
   timeouts, a hash table with open addressing has the deadlines of the latest and of the earliest one, and a number for
   each, assigned by the caller. So a search does not access the timeouts themselves. The caller provides the
   storage. */
#ifndef RUNNEL_WINDOWS_H
#define RUNNEL_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* The length of a window in ns. A shared timeout fires less than this after the requested deadline. */
#define WINDOW_NS (10 * CLOCK_MS)

typedef struct Window {
  int64_t latest;           /* the deadline of its latest timeout */
  uint32_t span;            /* how much earlier the earliest deadline is, in ns */
  uint32_t latest_number;   /* the number of the latest one; 0: this entry is free */
  uint32_t earliest_number; /* the number of the earliest one */
} Window;

typedef struct Windows {
  Window *entries;   /* the caller's storage; replaced with windows_move */
  uint32_t count;    /* windows in it */
  uint32_t capacity; /* entries of the storage, a power of two, or 0 */
} Windows;

/* Whether there is no room for another window: a quarter of the entries stays free. */
static inline bool windows_full(const Windows *windows) { return windows->count >= windows->capacity / 4 * 3; }

/* Moves to larger storage. `capacity` is a power of two, at least 8. */
void windows_move(Windows *windows, Window *storage, uint32_t capacity);

/* The number of a pending timeout with a deadline from `deadline` to less than WINDOW_NS later, or 0. */
uint32_t windows_find(const Windows *windows, int64_t deadline);

/* Adds a timeout, for whose deadline windows_find has found none. There must be room. */
void windows_add(Windows *windows, int64_t deadline, uint32_t number);

/* Removes a timeout that is due. The timeouts of a window must be removed in the order of their deadlines, and from then
   on no deadline before theirs is searched for. */
void windows_remove(Windows *windows, int64_t deadline, uint32_t number);

#endif
