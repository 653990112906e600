/* deflate.h: compressed messages (permessage-deflate, RFC 7692), each by itself: neither end uses an earlier message for
   the next one (no_context_takeover), so a connection without a message on its way needs no memory for this. */
#ifndef RUNNEL_WEBSOCKET_DEFLATE_H
#define RUNNEL_WEBSOCKET_DEFLATE_H

#include <stdbool.h>
#include <stdint.h>
#define ZLIB_CONST /* zlib does not change its input */
#include <zlib.h>

#include "base/bytes.h"

/* Results of inflater_add and inflater_end. */
typedef enum Inflated {
  INFLATED,          /* all bytes have been taken */
  INFLATED_WRONG,    /* they are not compressed data */
  INFLATED_TOO_LONG, /* the message is longer than the limit */
  INFLATED_NO_MEMORY
} Inflated;

/* A message while it comes. All zeros: none. */
typedef struct Inflater {
  z_stream z;
  bool is_open; /* `z` has memory */
} Inflater;

/* Decompresses bytes to the end of `to`, which must not get longer than `max`. */
Inflated inflater_add(Inflater *inflater, const uint8_t *bytes, size_t size, Bytes *to, size_t max);

/* Ends the message; also checks that it is complete. */
Inflated inflater_end(Inflater *inflater, Bytes *to, size_t max);

/* Frees the memory of the message that comes, if there is one. */
void inflater_close(Inflater *inflater);

/* The least length of a message that is worth it, in bytes. */
enum { DEFLATE_LEAST = 256 };

/* Compresses a message to the end of `to`, with a window of at most 2^bits bytes, 9 to 15; false without memory. */
bool deflate_message(const char *text, size_t size, int bits, Bytes *to);

#endif
