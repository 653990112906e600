/* deflate.h: compressed messages (permessage-deflate, RFC 7692). Each message is compressed by itself: neither end
   refers to earlier messages (no_context_takeover), so a connection needs no memory for this between two messages. */
#ifndef RUNNEL_WEBSOCKET_DEFLATE_H
#define RUNNEL_WEBSOCKET_DEFLATE_H

#include <stdbool.h>
#include <stdint.h>
#define ZLIB_CONST /* zlib does not change its input */
#include <zlib.h>

#include "base/bytes.h"

/* Results of inflater_add and inflater_end. */
typedef enum Inflated {
  INFLATED,          /* all bytes were decompressed */
  INFLATED_WRONG,    /* the bytes are not valid compressed data */
  INFLATED_TOO_LONG, /* the message is longer than the limit */
  INFLATED_NO_MEMORY
} Inflated;

/* Decompresses the message that is being received: from malloc, and NULL before its first bytes. */
typedef z_stream Inflater;

/* Decompresses bytes, at most UINT_MAX, and appends them to `to`, which must not get longer than `max`. */
Inflated inflater_add(Inflater **inflater, const uint8_t *bytes, size_t size, Bytes *to, size_t max);

/* Ends the message; also checks that it is complete. */
Inflated inflater_end(Inflater **inflater, Bytes *to, size_t max);

/* Frees the memory of the current message, if there is one. */
void inflater_close(Inflater **inflater);

/* Shorter messages, in bytes, are not compressed. */
enum { DEFLATE_LEAST = 256 };

/* Compresses a message and appends it to `to`, with a window of at most 2^bits bytes (9 to 15); false if there is no
   memory. */
bool deflate_message(const char *text, size_t size, int bits, Bytes *to);

#endif
