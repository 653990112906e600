/* slice.h: bytes that lie in a text of another owner. */
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

/* Whether it is this text, whatever the case of letters. */
static inline bool slice_is(Slice slice, const char *text) {
  return slice.size == strlen(text) && strncasecmp(slice.at, text, slice.size) == 0;
}

/* Without the spaces and tabs around it. */
static inline Slice slice_trim(Slice slice) {
  while (slice.size && (*slice.at == ' ' || *slice.at == '\t')) slice.at++, slice.size--;
  while (slice.size && (slice.at[slice.size - 1] == ' ' || slice.at[slice.size - 1] == '\t')) slice.size--;
  return slice;
}

/* Whether each byte is of a kind. */
static inline bool slice_all(Slice slice, bool (*is_of)(unsigned char)) {
  for (size_t i = 0; i < slice.size; i++) {
    if (!is_of((unsigned char)slice.at[i])) return false;
  }
  return true;
}

#endif
