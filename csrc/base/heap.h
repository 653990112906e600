/* heap.h: the timer heap, 4-ary. A timer knows its place in it, so that removing it is O(log n); but a timeout's timer is
   not written to while it is in the heap. Timers with the same deadline come out in the order of insertion. */
#ifndef RUNNEL_HEAP_H
#define RUNNEL_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* The place of a timer that is in no heap. */
#define HEAP_NOWHERE UINT32_MAX

typedef struct Timer {
  int64_t deadline; /* when it is due, in ns of the scheduler's clock */
  uint64_t seq;     /* order of insertion, for equal deadlines */
  uint32_t place;   /* where it is in the heap's entries, or HEAP_NOWHERE */
  bool is_timeout;  /* when it fires, it closes a timeout channel; */
  bool is_call;     /* it makes a call (timers/delayed.h); with neither it wakes a sleeper */
} Timer;

typedef struct HeapEntry {
  int64_t deadline; /* a copy of the timer's, so that comparing touches one cache line */
  uintptr_t timer;  /* the timer; the lowest bit is 1 for a timeout, since reading the timer could miss the cache */
} HeapEntry;

typedef struct Heap {
  HeapEntry *entries; /* the owner's storage; see heap_move */
  uint32_t count;     /* timers in it */
  uint32_t capacity;  /* entries that the storage holds */
  uint64_t next_seq;  /* for the next timer */
} Heap;

/* The timer of an entry. */
static inline Timer *heap_timer(HeapEntry entry) { return (Timer *)(entry.timer & ~(uintptr_t)1); }

/* Moves the heap to larger storage and returns the old one (NULL at first). */
HeapEntry *heap_move(Heap *heap, HeapEntry *storage, uint32_t capacity);

/* Adds a timer with its deadline set. There must be room: count < capacity. */
void heap_insert(Heap *heap, Timer *timer);

/* Takes the first timer out. There must be one. */
Timer *heap_pop(Heap *heap);

/* Removes a timer that is no timeout's. Returns false if it is not in this heap. */
bool heap_remove(Heap *heap, Timer *timer);

/* The timer that is due first, or NULL. */
static inline Timer *heap_first(const Heap *heap) { return heap->count ? heap_timer(heap->entries[0]) : (Timer *)0; }

#endif
