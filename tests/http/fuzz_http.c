/* fuzz_http: libFuzzer on the parser of HTTP requests (csrc/http/server/head.h, chunks.h).

   The first byte of an input says in which pieces the rest comes. It is parsed as a head, and as a body in chunks, in
   pieces and at once: both must give the same. What the parser accepts must be as its header promises. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "http/server/chunks.h"
#include "http/server/head.h"

enum { MOST = 400 }; /* bytes of a head */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what) {
  if (ok) return;
  (void)fprintf(stderr, "fuzz_http: %s\n", what);
  abort();
}

/* A copy of the first bytes, in memory of exactly that size. */
static char *copy(const char *bytes, size_t size) {
  char *to = (char *)malloc(size ? size : 1);
  must(to != NULL, "no memory");
  if (size) memcpy(to, bytes, size);
  return to;
}

/* ---- heads ---- */

static void check_slice(Slice slice, const char *bytes, size_t size) {
  must(slice.at >= bytes && slice.at + slice.size <= bytes + size, "a part lies outside of the head");
  for (size_t i = 0; i < slice.size; i++) {
    char c = slice.at[i];
    must(c != '\r' && c != '\n' && c != 0, "a part has the end of a line, or a zero byte");
  }
}

static void check_head(const char *bytes, size_t size) {
  Head head;
  int status = head_read(&head, bytes, size);
  must(status == 0 || (status >= 400 && status <= 505), "a status that is no error");
  if (status) return;
  check_slice(head.method, bytes, size);
  check_slice(head.target, bytes, size);
  must(head.method.size && head.target.size && head.nfields <= HEAD_FIELDS, "a part is missing");
  unsigned lengths = 0, codings = 0, hosts = 0;
  for (size_t i = 0; i < head.nfields; i++) {
    check_slice(head.fields[i].name, bytes, size);
    check_slice(head.fields[i].value, bytes, size);
    lengths += slice_is(head.fields[i].name, "content-length");
    codings += slice_is(head.fields[i].name, "transfer-encoding");
    hosts += slice_is(head.fields[i].name, "host");
  }
  must(lengths + codings <= 1 && hosts <= 1 && hosts + head.is_old >= 1, "the length or the host is not certain");
  must(head.is_chunked == codings && (head.length == 0 || lengths), "the length is wrong");
}

static void try_head(const char *bytes, size_t size, uint64_t random) {
  size_t seen = 0, at = 0;
  char *all = copy(bytes, size);
  ptrdiff_t whole = head_find(all, size, MOST, &seen), found = 0;
  for (seen = 0; !found && at < size;) {
    at += random_below(&random, 5) + 1;
    if (at > size) at = size;
    char *part = copy(bytes, at);
    found = head_find(part, at, MOST, &seen);
    free(part);
  }
  must(found == whole, "a head in pieces is another one");
  if (whole > 0) {
    char *head = copy(bytes, (size_t)whole);
    check_head(head, (size_t)whole);
    free(head);
  }
  free(all);
}

/* ---- chunks ---- */

typedef struct Body {
  char bytes[1024];
  size_t size;
  size_t used; /* bytes of the input */
  bool is_wrong, is_complete;
} Body;

static Body parse(const char *bytes, size_t size, uint64_t *random) {
  Body body = {.size = 0};
  Chunks chunks = {0};
  while (body.used < size && !body.is_wrong && !chunks_are_complete(&chunks)) {
    size_t n = size - body.used;
    if (random && n > 3) n = random_below(random, 3) + 1;
    char *part = copy(bytes + body.used, n);
    Slice piece, trailers;
    ptrdiff_t used = chunks_parse(&chunks, part, n, &piece, &trailers);
    body.is_wrong = used < 0;
    if (used > 0) {
      must(used <= (ptrdiff_t)n && piece.at >= part && piece.at + piece.size <= part + n, "a piece lies outside");
      must(trailers.at >= part && trailers.at + trailers.size <= part + n, "trailers lie outside");
      memcpy(body.bytes + body.size, piece.at, piece.size);
      body.size += piece.size;
      body.used += (size_t)used;
    }
    free(part);
  }
  body.is_complete = chunks_are_complete(&chunks);
  return body;
}

static void try_chunks(const char *bytes, size_t size, uint64_t random) {
  Body a = parse(bytes, size, NULL), b = parse(bytes, size, &random);
  must(a.is_wrong == b.is_wrong && a.is_complete == b.is_complete, "chunks in pieces are others");
  must(a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0, "a body in pieces is another one");
  must(!a.is_complete || a.used == b.used, "the end is elsewhere");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || size > 1000) return 0;
  uint64_t random;
  random_seed(&random, data[0]);
  try_head((const char *)data + 1, size - 1, random);
  try_chunks((const char *)data + 1, size - 1, random);
  return 0;
}
