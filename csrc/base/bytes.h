/* bytes.h: a queue of bytes that grows; without takes, a text. */
#ifndef RUNNEL_BYTES_H
#define RUNNEL_BYTES_H

#include <stdbool.h>
#include <string.h>

#include "base/grow.h"

/* Begins as zeros. */
typedef struct Bytes {
  char *start;     /* from malloc; NULL before the first bytes */
  size_t from;     /* the first byte that has not been taken */
  size_t to;       /* behind the last */
  size_t capacity; /* how many there is memory for */
} Bytes;

/* How many there are. */
static inline size_t bytes_length(const Bytes *bytes) { return bytes->to - bytes->from; }

/* The first of them; "" if there is no memory. */
static inline const char *bytes_first(const Bytes *bytes) { return bytes->start ? bytes->start + bytes->from : ""; }

/* Removes all, but keeps the memory. */
static inline void bytes_clear(Bytes *bytes) { bytes->from = bytes->to = 0; }

/* Frees the memory. */
static inline void bytes_free(Bytes *bytes) {
  free(bytes->start);
  *bytes = (Bytes){0};
}

/* Adds some; false if there is no memory: then nothing is added. */
static inline bool bytes_add(Bytes *bytes, const void *data, size_t size) {
  if (!size) return true;
  bool moves = bytes->from > 0 && bytes->from >= bytes_length(bytes); /* so that each byte moves once */
  if (moves && size > bytes->capacity - bytes->to) {
    memmove(bytes->start, bytes->start + bytes->from, bytes_length(bytes));
    bytes->to -= bytes->from;
    bytes->from = 0;
  }
  char *start = (char *)grow(bytes->start, &bytes->capacity, bytes->to + size, 1);
  if (!start) return false;
  bytes->start = start;
  memcpy(start + bytes->to, data, size);
  bytes->to += size;
  return true;
}

/* Takes at most `size` to `to`; returns how many. */
static inline size_t bytes_take(Bytes *bytes, char *to, size_t size) {
  size_t n = bytes_length(bytes) < size ? bytes_length(bytes) : size;
  if (n) memcpy(to, bytes->start + bytes->from, n);
  bytes->from += n;
  if (bytes->from == bytes->to) bytes_clear(bytes);
  return n;
}

#endif
