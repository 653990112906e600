/* spans.h: memory for the small objects of one lua_State. A go block is about ten of them, and malloc and free would
   take a quarter of the time of its life, since they must work for many threads and for any size. Here there is no
   lock, a block has no header, and both operations are a few instructions.

   A region of addresses is reserved once. It is divided into spans of 16 KB, and the blocks of a span all have the same
   size, a multiple of 16 bytes. A table at the start of the region has the data of each span; a block's address leads
   to its entry. An empty span can serve any size next. Empty spans give their memory back to the system, but not at
   once: a collector empties many, which the program fills again before the next cycle. Only spans that the program has
   not needed for several cycles do.

   Not for more than one thread at a time. */
#ifndef RUNNEL_SPANS_H
#define RUNNEL_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compat.h"

enum {
  SPAN_BITS = 14,
  SPAN_SIZE = 1 << SPAN_BITS,
  BLOCK_UNIT = 16,                         /* sizes are multiples of it */
  BLOCK_MAX = 1024,                        /* the largest block, in bytes */
  BLOCK_SIZES = BLOCK_MAX / BLOCK_UNIT + 1 /* of these 0 is not used */
};

/* The reserved addresses, in bytes. Only used ones take memory. Where a process has 4 GB of addresses, hundreds of states
   must fit; what has no room in a region takes its memory from malloc. */
#define REGION_SIZE ((size_t)1 << (sizeof(size_t) > 4 ? 34 : 23))

/* A free block. */
typedef struct Block {
  struct Block *next; /* the next free one of its span */
} Block;

typedef struct Span {
  Block *free;        /* its free blocks, except the fresh ones */
  struct Span *next;  /* in its list: Spans.open[size], Spans.idle or Spans.cold */
  struct Span **link; /* the pointer to it in Spans.open[size]; NULL if it is in no such list */
  uint16_t used;      /* blocks in use */
  uint16_t low;       /* when this many are in use, spans_put_last must be called */
  uint16_t fresh;     /* free blocks at its end that are not in the list yet */
  uint8_t size;       /* of a block, in units; 0: the span is empty */
} Span;

typedef struct Spans {
  Span *open[BLOCK_SIZES]; /* for each size, the spans with free blocks; without any, `full`, never NULL */
  Span full;               /* has no block: the end of each list in `open` */
  Span *idle;              /* spans without blocks in use, the newest first */
  Span *cold;              /* idle spans whose memory was given back to the system */
  char *region;            /* where the region begins */
  size_t begun;            /* spans that have been used, including the table's: the others are untouched */
  size_t ready;            /* spans whose memory may be accessed */
  size_t nidle;            /* spans in `idle` */
  size_t nbusy;            /* spans that have a size */
  size_t lowest;           /* the minimum of nidle since the last check for memory to give back */
  size_t changes;          /* how often a span has become idle or busy since then */
  bool stopped;            /* spans_get always fails */
} Spans;

/* Reserves a region; false if the system has none. */
bool spans_init(Spans *spans);

/* Gives all memory back. */
void spans_destroy(Spans *spans);

/* Makes spans_get fail from now on. Blocks may still be freed. */
void spans_stop(Spans *spans);

/* A block of `size` bytes, 1 to BLOCK_MAX; NULL if there is no memory for it. */
void *spans_get(Spans *spans, size_t size);

/* The rest of the work when a span has `low` blocks in use. */
void spans_put_last(Spans *spans, Span *span);

/* Whether the block is in the region. */
static inline bool spans_has(const Spans *spans, const void *block) {
  return (size_t)((uintptr_t)block - (uintptr_t)spans->region) < REGION_SIZE;
}

/* The span of a block in the region. */
static inline Span *spans_of(const Spans *spans, const void *block) {
  return (Span *)(void *)spans->region + (((uintptr_t)block - (uintptr_t)spans->region) >> SPAN_BITS);
}

/* The size of a block in units. */
static inline size_t spans_units(size_t size) { return (size + BLOCK_UNIT - 1) / BLOCK_UNIT; }

/* A ready block of `size` bytes, 1 to BLOCK_MAX; or NULL: then spans_get may find one. */
static inline void *spans_get_fast(Spans *spans, size_t size) {
  Span *span = spans->open[spans_units(size)];
  Block *block = span->free;
  if (UNLIKELY(!block)) return NULL;
  span->free = block->next;
  span->used++;
  return block;
}

/* Frees a block of the region. */
static inline void spans_put(Spans *spans, void *memory) {
  Span *span = spans_of(spans, memory);
  Block *block = (Block *)memory;
  block->next = span->free;
  span->free = block;
  if (UNLIKELY(--span->used <= span->low)) spans_put_last(spans, span);
}

/* How many bytes a block of the region has. */
static inline size_t spans_size(const Spans *spans, const void *block) {
  return (size_t)spans_of(spans, block)->size * BLOCK_UNIT;
}

#endif
