/* chunks.h: a body in chunks (RFC 9112, 7.1). The parser takes single bytes, so the body may arrive in any pieces, and
   no piece has to be kept. It is as strict as head.h. */
#ifndef RUNNEL_HTTP_CHUNKS_H
#define RUNNEL_HTTP_CHUNKS_H

#include <stdint.h>

#include "http/server/slice.h"

/* The limits, in bytes, for all chunk extensions of a body together, which are dropped, and for its trailers. */
enum { CHUNKS_EXTENSIONS = 4096, CHUNKS_TRAILERS = 8192 };

/* Begins as zeros. */
typedef struct Chunks {
  int state;           /* what is expected next: see chunks.c */
  uint64_t left;       /* bytes of the chunk that have not arrived */
  uint32_t digits;     /* of its size, so far */
  uint32_t extensions; /* bytes of extensions */
  uint32_t trailers;   /* bytes of trailers */
} Chunks;

/* Parses bytes until it finds a piece of the body, or to their end. *piece then points to that piece within `bytes`, or
   is empty; *trailers to those bytes of the lines behind the last chunk that are among them. Returns how many bytes were
   parsed, or -1 if they break the rules or a limit. */
ptrdiff_t chunks_parse(Chunks *chunks, const char *bytes, size_t size, Slice *piece, Slice *trailers);

/* Whether the body is complete. */
bool chunks_are_complete(const Chunks *chunks);

#endif
