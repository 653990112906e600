/* windows.h: the pending timeouts, by windows of time. Of each window that has any it knows the latest and the
   earliest, each by a number that is the owner's, and their deadlines: to find one that serves a request touches no
   timeout. A hash table with open addressing; storage is the owner's. */
#ifndef RUNNEL_WINDOWS_H
#define RUNNEL_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* How long a window is, and how late a timeout may serve a request, in ns: less than this. */
#define WINDOW_NS (10 * CLOCK_MS)

typedef struct Window {
  int64_t latest;           /* the deadline of its latest timeout */
  uint32_t span;            /* how much earlier that of its earliest one is, in ns */
  uint32_t latest_number;   /* the latest one's number; 0: this entry is free */
  uint32_t earliest_number; /* the earliest one's */
} Window;

typedef struct Windows {
  Window *entries;   /* storage, the owner's; moved with windows_move */
  uint32_t count;    /* windows in it */
  uint32_t capacity; /* entries of the storage, a power of two, or 0 */
} Windows;

/* Whether there is no room for one window more: a quarter of the entries stays free. */
static inline bool windows_full(const Windows *windows) { return windows->count >= windows->capacity / 4 * 3; }

/* Moves to larger storage, of a power of two of entries, at least 8. */
void windows_move(Windows *windows, Window *storage, uint32_t capacity);

/* The number of a pending timeout with a deadline from `deadline` to less than WINDOW_NS later, or 0. */
uint32_t windows_find(const Windows *windows, int64_t deadline);

/* Adds a timeout, which windows_find has not found a substitute for. There must be room. */
void windows_add(Windows *windows, int64_t deadline, uint32_t number);

/* Removes a timeout. The timeouts of a window must be removed in the order of their deadlines. */
void windows_remove(Windows *windows, int64_t deadline, uint32_t number);

#endif
