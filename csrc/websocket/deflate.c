/* deflate.c: see deflate.h. */
#include "websocket/deflate.h"

#include <limits.h>

enum { PIECE = 16384, LARGEST_WINDOW = 15, SMALLEST_WINDOW = 9, MEMORY_LEVEL = 8 };

/* The end of each message, which the sender leaves out: an empty block without compression. */
static const uint8_t TAIL[4] = {0x00, 0x00, 0xFF, 0xFF};

/* The inflater of the current message; NULL if there is no memory. */
static Inflater *open(Inflater **inflater) {
  Inflater *z = *inflater;
  if (z) return z;
  z = (Inflater *)calloc(1, sizeof *z);
  if (z && inflateInit2(z, -LARGEST_WINDOW) != Z_OK) {
    free(z);
    z = NULL;
  }
  *inflater = z;
  return z;
}

/* Decompresses the input of `z`; `flush` as for inflate. */
static Inflated decompress(z_stream *z, int flush, Bytes *to, size_t max) {
  uint8_t piece[PIECE];
  for (;;) {
    z->next_out = piece;
    z->avail_out = PIECE;
    int result = inflate(z, flush);
    if (result == Z_MEM_ERROR) return INFLATED_NO_MEMORY;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return INFLATED_WRONG;
    size_t size = PIECE - z->avail_out;
    if (size > max - bytes_length(to)) return INFLATED_TOO_LONG;
    if (!bytes_add(to, piece, size)) return INFLATED_NO_MEMORY;
    if (result == Z_STREAM_END) {
      (void)inflateReset(z); /* the sender has marked a block as the last one; others may follow */
    } else if (z->avail_out > 0 && (z->avail_in == 0 || result == Z_BUF_ERROR)) {
      return INFLATED;
    }
  }
}

Inflated inflater_add(Inflater **inflater, const uint8_t *bytes, size_t size, Bytes *to, size_t max) {
  Inflater *z = open(inflater);
  if (!z) return INFLATED_NO_MEMORY;
  z->next_in = bytes;
  z->avail_in = (unsigned)size;
  return decompress(z, Z_NO_FLUSH, to, max);
}

Inflated inflater_end(Inflater **inflater, Bytes *to, size_t max) {
  Inflater *z = open(inflater); /* here, if the message has no bytes */
  if (!z) return INFLATED_NO_MEMORY;
  z->next_in = TAIL;
  z->avail_in = sizeof TAIL;
  Inflated result = decompress(z, Z_BLOCK, to, max);
  bool is_between_blocks = z->data_type & 128;
  inflater_close(inflater);
  return result == INFLATED && !is_between_blocks ? INFLATED_WRONG : result;
}

void inflater_close(Inflater **inflater) {
  if (*inflater) (void)inflateEnd(*inflater);
  free(*inflater);
  *inflater = NULL;
}

bool deflate_message(const char *text, size_t size, int bits, Bytes *to) {
  int window = SMALLEST_WINDOW;
  while (window < bits && (size_t)1 << window < size) window++; /* a short message needs little memory */
  z_stream z = {0};
  if (size > UINT_MAX) return false;
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -window, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
    return false;
  uint8_t piece[PIECE];
  bool ok = true;
  z.next_in = (const uint8_t *)text;
  z.avail_in = (unsigned)size;
  do {
    z.next_out = piece;
    z.avail_out = PIECE;
    (void)deflate(&z, Z_SYNC_FLUSH);
    ok = bytes_add(to, piece, PIECE - z.avail_out);
  } while (ok && z.avail_out == 0);
  (void)deflateEnd(&z);
  if (ok) to->to -= sizeof TAIL;
  return ok;
}
