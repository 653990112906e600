/* windows.c: see windows.h.

   A timeout that can serve a request for t is in the window of t or in the next one. In the first the latest timeout
   suffices, in the second the earliest. A new timeout is always the latest of its window: otherwise the latest one
   would have been shared. The windows of a group are successive and adjacent, within one or two cache lines; the groups
   are scattered. */
#include "base/windows.h"

#include <string.h>

enum { GROUP = 8 };

static int64_t window_of(int64_t deadline) { return deadline / WINDOW_NS; }

/* Where the search for a window begins. */
static uint32_t home(const Windows *windows, int64_t window) {
  uint64_t group = (uint64_t)window / GROUP;
  uint64_t scattered = (group * UINT64_C(0x9E3779B97F4A7C15)) >> 32; /* spreads successive groups evenly */
  uint64_t place = scattered * (windows->capacity / GROUP) >> 32;
  return (uint32_t)(place * GROUP + (uint64_t)window % GROUP);
}

static uint32_t next(const Windows *windows, uint32_t i) { return (i + 1) & (windows->capacity - 1); }

/* The entry of a window, or a free one. The storage must have entries. */
static Window *entry_of(const Windows *windows, int64_t window) {
  uint32_t i = home(windows, window);
  while (windows->entries[i].latest_number && window_of(windows->entries[i].latest) != window) i = next(windows, i);
  return &windows->entries[i];
}

void windows_move(Windows *windows, Window *storage, uint32_t capacity) {
  Windows old = *windows;
  memset(storage, 0, capacity * sizeof(Window));
  windows->entries = storage;
  windows->capacity = capacity;
  for (uint32_t i = 0; i < old.capacity; i++) {
    const Window *w = &old.entries[i];
    if (w->latest_number) *entry_of(windows, window_of(w->latest)) = *w;
  }
}

uint32_t windows_find(const Windows *windows, int64_t deadline) {
  if (windows->count == 0) return 0;
  int64_t window = window_of(deadline);
  const Window *w = entry_of(windows, window);
  if (w->latest_number && w->latest >= deadline) return w->latest_number;
  w = entry_of(windows, window + 1);
  return w->latest_number && w->latest - w->span - deadline < WINDOW_NS ? w->earliest_number : 0;
}

void windows_add(Windows *windows, int64_t deadline, uint32_t number) {
  Window *w = entry_of(windows, window_of(deadline));
  if (w->latest_number) {
    w->span += (uint32_t)(deadline - w->latest);
  } else {
    w->span = 0;
    w->earliest_number = number;
    windows->count++;
  }
  w->latest = deadline;
  w->latest_number = number;
}

/* Frees an entry, and moves back the later entries that it displaced. */
static void free_entry(Windows *windows, uint32_t hole) {
  windows->count--;
  for (uint32_t i = next(windows, hole); windows->entries[i].latest_number; i = next(windows, i)) {
    uint32_t from = home(windows, window_of(windows->entries[i].latest));
    uint32_t mask = windows->capacity - 1;
    if (((i - from) & mask) < ((i - hole) & mask)) continue; /* its search begins after the hole */
    windows->entries[hole] = windows->entries[i];
    hole = i;
  }
  windows->entries[hole].latest_number = 0;
}

void windows_remove(Windows *windows, int64_t deadline, uint32_t number) {
  Window *w = entry_of(windows, window_of(deadline));
  /* An earlier one may stay: only requests for the window before use the earliest, and these are over when it is due. */
  if (w->latest_number == number) free_entry(windows, (uint32_t)(w - windows->entries));
}
