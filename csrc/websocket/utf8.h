/* utf8.h: checks that bytes which arrive in pieces are UTF-8 (RFC 3629: no surrogates, nothing beyond U+10FFFF, no
   character in more bytes than it needs). */
#ifndef RUNNEL_WEBSOCKET_UTF8_H
#define RUNNEL_WEBSOCKET_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The state of checking a text. All zeros: at the start, or between two characters. */
typedef struct Utf8 {
  uint8_t missing;   /* number of bytes that the current character still needs */
  uint8_t low, high; /* the least and the greatest value of the next of these bytes */
} Utf8;

/* Adds bytes; false if the text is not UTF-8, whatever follows. */
bool utf8_add(Utf8 *utf8, const uint8_t *bytes, size_t size);

/* Whether the text may end here. */
static inline bool utf8_is_complete(const Utf8 *utf8) { return utf8->missing == 0; }

/* Whether all of these bytes are UTF-8. */
bool utf8_is_valid(const char *bytes, size_t size);

#endif
