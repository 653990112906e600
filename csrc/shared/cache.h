/* cache.h: memory that begins with a cache line, so that data shared by two processors is in as few lines as possible:
   each line that moves from one to the other takes about 100 ns. */
#ifndef RUNNEL_CACHE_H
#define RUNNEL_CACHE_H

#include <stddef.h>

enum { CACHE_LINE = 64 };

/* Allocates `size` bytes, all 0; NULL when memory runs out. cache_free frees them; NULL is ignored. */
void *cache_new(size_t size);
void cache_free(void *memory);

#endif
