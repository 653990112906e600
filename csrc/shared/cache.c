/* cache.c: see cache.h. malloc's address is stored before the returned memory. */
#include "shared/cache.h"

#include <stdint.h>
#include <stdlib.h>

void *cache_new(size_t size) {
  const size_t more = sizeof(void *) + CACHE_LINE - 1;
  if (size > SIZE_MAX - more) return NULL;
  char *start = (char *)calloc(1, size + more);
  if (!start) return NULL;
  char *memory = start + sizeof(void *);
  memory += -(uintptr_t)memory % CACHE_LINE;
  ((void **)(void *)memory)[-1] = start;
  return memory;
}

void cache_free(void *memory) {
  if (memory) free(((void **)memory)[-1]);
}
