/* slice.h: bytes within a text that has another owner. */
#ifndef RUNNEL_HTTP_SLICE_H
#define RUNNEL_HTTP_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

typedef struct Slice {
  const char *at; /* the first byte; not ended by a zero */
  size_t size;    /* how many there are */
} Slice;

/* Whether it equals a text, ignoring the case of letters. */
static inline bool slice_is(Slice slice, const char *text) {
  return slice.size == strlen(text) && strncasecmp(slice.at, text, slice.size) == 0;
}

/* The slice without spaces and tabs around it. */
static inline Slice slice_trim(Slice slice) {
  while (slice.size && (*slice.at == ' ' || *slice.at == '\t')) slice.at++, slice.size--;
  while (slice.size && (slice.at[slice.size - 1] == ' ' || slice.at[slice.size - 1] == '\t')) slice.size--;
  return slice;
}

/* The value of a hexadecimal digit; -1 if it is none. */
static inline int slice_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  int letter = c | 32;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Whether `is_of` holds for each byte. */
static inline bool slice_all(Slice slice, bool (*is_of)(unsigned char)) {
  for (size_t i = 0; i < slice.size; i++) {
    if (!is_of((unsigned char)slice.at[i])) return false;
  }
  return true;
}

#endif
