/* heap.c: see heap.h. A node has four children: half the levels of a binary heap, and the four are in one cache
   line. */
#include "base/heap.h"

#include <string.h>

/* Whether a is due before b. */
static bool earlier(HeapEntry a, HeapEntry b) {
  if (a.deadline != b.deadline) return a.deadline < b.deadline;
  return heap_timer(a)->seq < heap_timer(b)->seq;
}

/* Stores an entry at a place. */
static void settle(Heap *heap, uint32_t place, HeapEntry entry) {
  heap->entries[place] = entry;
  if (!(entry.timer & 1)) heap_timer(entry)->place = place;
}

/* Stores an entry at a place or above it, where it belongs. */
static void sift_up(Heap *heap, uint32_t place, HeapEntry entry) {
  while (place > 0) {
    uint32_t parent = (place - 1) / 4;
    if (!earlier(entry, heap->entries[parent])) break;
    settle(heap, place, heap->entries[parent]);
    place = parent;
  }
  settle(heap, place, entry);
}

/* Stores an entry at a place or below it, where it belongs. */
static void sift_down(Heap *heap, uint32_t place, HeapEntry entry) {
  for (;;) {
    uint64_t child = (uint64_t)place * 4 + 1;
    if (child >= heap->count) break;
    uint64_t end = child + 4 < heap->count ? child + 4 : heap->count;
    uint64_t least = child;
    while (++child < end) {
      if (earlier(heap->entries[child], heap->entries[least])) least = child;
    }
    if (!earlier(heap->entries[least], entry)) break;
    settle(heap, place, heap->entries[least]);
    place = (uint32_t)least;
  }
  settle(heap, place, entry);
}

HeapEntry *heap_move(Heap *heap, HeapEntry *storage, uint32_t capacity) {
  HeapEntry *old = heap->entries;
  if (heap->count) memcpy(storage, old, heap->count * sizeof(HeapEntry));
  heap->entries = storage;
  heap->capacity = capacity;
  return old;
}

void heap_insert(Heap *heap, Timer *timer) {
  timer->seq = heap->next_seq++;
  sift_up(heap, heap->count++, (HeapEntry){timer->deadline, (uintptr_t)timer | timer->is_timeout});
}

Timer *heap_pop(Heap *heap) {
  Timer *timer = heap_timer(heap->entries[0]);
  if (!timer->is_timeout) timer->place = HEAP_NOWHERE;
  HeapEntry last = heap->entries[--heap->count];
  if (heap->count) sift_down(heap, 0, last);
  return timer;
}

bool heap_remove(Heap *heap, Timer *timer) {
  uint32_t place = timer->place;
  if (place >= heap->count || heap_timer(heap->entries[place]) != timer) return false;
  timer->place = HEAP_NOWHERE;
  HeapEntry last = heap->entries[--heap->count];
  if (heap_timer(last) == timer) return true;
  /* The last entry moves to the place, and then up or down to its position. */
  if (place > 0 && earlier(last, heap->entries[(place - 1) / 4])) sift_up(heap, place, last);
  else sift_down(heap, place, last);
  return true;
}
