/* grow.h: arrays in memory of malloc that grow. */
#ifndef RUNNEL_GROW_H
#define RUNNEL_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The least memory of an array, in bytes. */
enum { GROW_LEAST = 256 };

/* Makes room for `n` items of `size` bytes in an array that has room for *capacity: returns it, or larger memory in its
   place, at least twice as large, with the same items; *capacity is then the new one. Returns NULL if there is no memory,
   and the array stays as it was. The array is NULL as long as *capacity is 0; `n` must not be 0. */
static inline void *grow(void *items, size_t *capacity, size_t n, size_t size) {
  if (n <= *capacity) return items;
  size_t more = *capacity ? *capacity * 2 : GROW_LEAST / size + 1;
  if (more < n) more = n;
  void *larger = more <= SIZE_MAX / 2 / size ? realloc(items, more * size) : NULL;
  if (larger) *capacity = more;
  return larger;
}

#endif
