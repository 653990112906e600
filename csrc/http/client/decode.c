/* decode.c: decompresses bodies with zlib. libcurl can do that, too, but it does not report the end of the compressed
   bytes, so that a cut body would count as complete; and it fails at a body of several gzip members. See client.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/client/client.h"

/* How many bytes are decompressed at once. */
enum { OUTPUT_SIZE = 16 * 1024 };

/* zlib's number for: the first bytes tell whether the format is gzip's or zlib's. */
enum { ANY_FORMAT = MAX_WBITS + 32 };

static void *allocate(void *data, uInt n, uInt size) {
  (void)data;
  return calloc(n, size);
}

static void release(void *data, void *block) {
  (void)data;
  free(block);
}

static bool is(const char *coding, size_t size, const char *name) {
  return size == strlen(name) && strncasecmp(coding, name, size) == 0;
}

bool decode_begin(Transfer *t) {
  size_t size = 0;
  const char *coding = response_find(&t->head, "Content-Encoding", &size);
  if (size == 0 || t->is_decoded || is(coding, size, "identity")) return true;
  if (t->status == 206) return true; /* a range: the beginning may be missing */
  if (!is(coding, size, "gzip") && !is(coding, size, "x-gzip") && !is(coding, size, "deflate"))
    return transfer_refuse(t, REFUSED_CODING);
  t->inflater = (z_stream *)calloc(1, sizeof *t->inflater);
  if (!t->inflater) return transfer_refuse(t, REFUSED_MEMORY);
  t->inflater->zalloc = allocate;
  t->inflater->zfree = release;
  return inflateInit2(t->inflater, ANY_FORMAT) == Z_OK || transfer_refuse(t, REFUSED_MEMORY);
}

size_t decode_body(Transfer *t, const char *from, size_t size) {
  z_stream *z = t->inflater;
  char output[OUTPUT_SIZE];
  bool goes_on = true;
  z->next_in = (Bytef *)(uintptr_t)(from + t->inflated); /* zlib only reads there */
  z->avail_in = (uInt)(size - t->inflated);
  while (goes_on) {
    if (t->is_inflated && inflateReset(z) != Z_OK) return transfer_refuse(t, REFUSED_DAMAGED); /* a further member */
    z->next_out = (Bytef *)output;
    z->avail_out = sizeof output;
    int code = inflate(z, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return transfer_refuse(t, REFUSED_MEMORY);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return transfer_refuse(t, REFUSED_DAMAGED);
    t->is_inflated = code == Z_STREAM_END;
    size_t n = sizeof output - z->avail_out;
    if (n > 0 && !transfer_keep_body(t, output, n)) return 0;
    goes_on = z->avail_in > 0 || (z->avail_out == 0 && !t->is_inflated);
    if (goes_on && t->is_stream && transfer_waits(t)) {
      t->inflated = size - z->avail_in;
      return CURL_WRITEFUNC_PAUSE;
    }
  }
  t->inflated = 0;
  return size;
}

bool decode_is_cut(const Transfer *t) { return t->inflater && !t->is_inflated; }

void decode_end(Transfer *t) {
  if (!t->inflater) return;
  (void)inflateEnd(t->inflater);
  free(t->inflater);
  t->inflater = NULL;
}
