/* grow.h: arrays in memory of malloc that grow. */
#ifndef RUNNEL_GROW_H
#define RUNNEL_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The least memory of an array, in bytes. */
enum { GROW_LEAST = 256 };

/* Makes room for `n` items of `size` bytes in an array that has room for *capacity: returns it, or a larger copy that
   replaces it, at least twice as large; *capacity is then the new one. Returns NULL if there is no memory; the array
   stays unchanged. The array is NULL while *capacity is 0; `n` must not be 0. */
static inline void *grow(void *items, size_t *capacity, size_t n, size_t size) {
  if (n <= *capacity) return items;
  size_t more = *capacity ? *capacity * 2 : GROW_LEAST / size + 1;
  if (more < n) more = n;
  void *larger = more <= SIZE_MAX / 2 / size ? realloc(items, more * size) : NULL;
  if (larger) *capacity = more;
  return larger;
}

#endif
