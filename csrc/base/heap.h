/* heap.h: the timer heap, 4-ary. A timer knows its place in it, so that removing one is O(log n). Timers with the same
   deadline come out in the order in which they were inserted. */
#ifndef RUNNEL_HEAP_H
#define RUNNEL_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* The place of a timer that is in no heap. */
#define HEAP_NOWHERE UINT32_MAX

typedef struct Timer {
  int64_t deadline; /* when it is due, in ns of the scheduler's clock */
  uint64_t seq;     /* order of insertion, for timers with the same deadline */
  uint32_t place;   /* where it is in the heap's entries, or HEAP_NOWHERE */
  bool is_timeout;  /* fires by closing a timeout channel; else it wakes a sleeper */
} Timer;

typedef struct HeapEntry {
  int64_t deadline; /* the timer's, copied here so that comparing touches one cache line */
  Timer *timer;     /* the timer */
} HeapEntry;

typedef struct Heap {
  HeapEntry *entries; /* storage, which belongs to the owner; see heap_move */
  uint32_t count;     /* timers in it */
  uint32_t capacity;  /* entries that the storage holds */
  uint64_t next_seq;  /* for the next timer */
} Heap;

/* Moves the heap to larger storage and returns the old one (NULL at first). */
HeapEntry *heap_move(Heap *heap, HeapEntry *storage, uint32_t capacity);

/* Adds a timer with its deadline set. There must be room: count < capacity. */
void heap_insert(Heap *heap, Timer *timer);

/* Removes a timer; does nothing if it is in no heap. */
void heap_remove(Heap *heap, Timer *timer);

/* The timer that is due first, or NULL. */
static inline Timer *heap_first(const Heap *heap) { return heap->count ? heap->entries[0].timer : (Timer *)0; }

#endif
