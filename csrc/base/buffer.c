/* buffer.c: see buffer.h. */
#include "base/buffer.h"

enum { FIRST_SIZE = 8 };

uint32_t buffer_grown(const Buffer *b) {
  uint32_t size = b->size ? b->size * 2 : b->limit < FIRST_SIZE ? b->limit : FIRST_SIZE;
  /* No more than the limit, unless a transducer needs more. */
  return b->size < b->limit && size > b->limit ? b->limit : size;
}
