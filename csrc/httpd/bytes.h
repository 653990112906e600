/* bytes.h: a queue of bytes, which grows. */
#ifndef RUNNEL_HTTPD_BYTES_H
#define RUNNEL_HTTPD_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Begins as zeros. */
typedef struct Bytes {
  char *start;     /* from malloc */
  size_t from;     /* the first byte that has not been taken */
  size_t to;       /* behind the last */
  size_t capacity; /* how many there is memory for */
} Bytes;

/* How many there are. */
static inline size_t bytes_length(const Bytes *bytes) { return bytes->to - bytes->from; }

/* Adds some; false if there is no memory. */
static inline bool bytes_add(Bytes *bytes, const char *data, size_t size) {
  if (bytes->to + size > bytes->capacity && bytes->from) {
    memmove(bytes->start, bytes->start + bytes->from, bytes_length(bytes));
    bytes->to -= bytes->from;
    bytes->from = 0;
  }
  if (bytes->to + size > bytes->capacity) {
    size_t capacity = bytes->to + size > 2 * bytes->capacity ? bytes->to + size : 2 * bytes->capacity;
    char *start = (char *)realloc(bytes->start, capacity);
    if (!start) return false;
    bytes->start = start;
    bytes->capacity = capacity;
  }
  if (size) memcpy(bytes->start + bytes->to, data, size); /* else `start` may be NULL */
  bytes->to += size;
  return true;
}

/* Takes at most `size` to `to`; returns how many. */
static inline size_t bytes_take(Bytes *bytes, char *to, size_t size) {
  size_t n = bytes_length(bytes) < size ? bytes_length(bytes) : size;
  if (n) memcpy(to, bytes->start + bytes->from, n);
  bytes->from += n;
  return n;
}

/* Frees all. */
static inline void bytes_free(Bytes *bytes) {
  free(bytes->start);
  *bytes = (Bytes){0};
}

#endif
