/* bytes.h: a queue of bytes that grows. A caller that takes none has a text that grows. */
#ifndef RUNNEL_BYTES_H
#define RUNNEL_BYTES_H

#include <stdbool.h>
#include <string.h>

#include "base/grow.h"

/* A queue that is all zeros is empty. One from which all bytes are taken frees its memory: most queues are of connections
   that wait. */
typedef struct Bytes {
  char *start;     /* the memory; NULL: none */
  size_t from;     /* offset of the first byte that has not been taken */
  size_t to;       /* offset behind the last byte */
  size_t capacity; /* size of the memory, in bytes; 0: it is not from malloc, and no bytes are added */
} Bytes;

/* The number of bytes in the queue. */
static inline size_t bytes_length(const Bytes *bytes) { return bytes->to - bytes->from; }

/* The first byte in the queue; "" before the first bytes_add. */
static inline const char *bytes_first(const Bytes *bytes) { return bytes->start ? bytes->start + bytes->from : ""; }

/* Removes all bytes, but keeps the memory. */
static inline void bytes_clear(Bytes *bytes) { bytes->from = bytes->to = 0; }

/* Frees the memory, unless it has none of its own: then its capacity is 0. */
static inline void bytes_free(Bytes *bytes) {
  if (bytes->capacity) free(bytes->start);
  *bytes = (Bytes){0};
}

/* Adds `size` bytes at the end. Returns false if memory runs out: then nothing is added. */
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

/* Moves all bytes of a queue to the end of another one. Returns false if memory runs out: then nothing is moved. */
static inline bool bytes_move(Bytes *to, Bytes *from) {
  if (bytes_length(to) > 0) {
    /* seldom covered: the network has not accepted the earlier bytes yet */
    if (!bytes_add(to, bytes_first(from), bytes_length(from))) return false;
    bytes_clear(from);
    return true;
  }
  Bytes empty = *to;
  *to = *from;
  *from = empty;
  return true;
}

/* Removes bytes from the front. */
static inline void bytes_drop(Bytes *bytes, size_t size) {
  bytes->from += size;
  if (bytes->from == bytes->to) bytes_free(bytes);
}

/* Moves at most `size` bytes from the front to `to`; returns their number. */
static inline size_t bytes_take(Bytes *bytes, char *to, size_t size) {
  size_t n = bytes_length(bytes) < size ? bytes_length(bytes) : size;
  if (n) memcpy(to, bytes->start + bytes->from, n);
  bytes_drop(bytes, n);
  return n;
}

#endif
