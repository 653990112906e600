/* chunks.h: a body in chunks (RFC 9112, 7.1). It is parsed byte by byte, so it may come in any pieces, and none needs to
   be kept. Strict, as head.h. */
#ifndef RUNNEL_HTTP_CHUNKS_H
#define RUNNEL_HTTP_CHUNKS_H

#include <stdint.h>

#include "http/server/slice.h"

/* The most bytes of all extensions of the chunks of a body, and of its trailers: both are dropped. */
enum { CHUNKS_EXTENSIONS = 4096, CHUNKS_TRAILERS = 8192 };

/* Begins as zeros. */
typedef struct Chunks {
  int state;           /* what is expected next: see chunks.c */
  uint64_t left;       /* bytes of the chunk that have not come */
  uint32_t digits;     /* of its size, so far */
  uint32_t extensions; /* bytes of extensions */
  uint32_t trailers;   /* bytes of trailers */
} Chunks;

/* Parses bytes until *piece has some of the body, which lie in them, or to their end. Returns how many were parsed, or -1
   if they are wrong or too many. */
ptrdiff_t chunks_parse(Chunks *chunks, const char *bytes, size_t size, Slice *piece);

/* Whether the body is complete. */
bool chunks_are_complete(const Chunks *chunks);

#endif
