/* spans.c: see spans.h. */
#define _DEFAULT_SOURCE /* NOLINT(bugprone-reserved-identifier): it and the next are how MAP_ANONYMOUS is asked for */
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE /* NOLINT(bugprone-reserved-identifier) */
#endif
#include "lua/state/spans.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

enum {
  SPANS_MAX = REGION_SIZE / SPAN_SIZE,
  TABLE_SPANS = (SPANS_MAX * sizeof(Span) + SPAN_SIZE - 1) / SPAN_SIZE, /* of the table, at the region's start */
  READY_MIN = 64,    /* the fewest spans that become accessible at once: 1 MB */
  LOOK_MIN = 1024,   /* changes between two checks for memory to give back */
  SPARE = 64,        /* idle spans that are always kept: 1 MB */
  FRESH_BYTES = 4096 /* of fresh blocks that join the free ones at once: a page */
};

static inline Span *span_at(const Spans *spans, size_t number) { return (Span *)(void *)spans->region + number; }

static inline char *memory_of(const Spans *spans, const Span *span) {
  return spans->region + ((size_t)(span - span_at(spans, 0)) << SPAN_BITS);
}

bool spans_init(Spans *spans) {
  memset(spans, 0, sizeof *spans);
  /* The system reserves no memory for addresses without access, whatever its policy. */
  /* cppcheck-suppress invalidFunctionArg */
  char *region = (char *)mmap(NULL, REGION_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == (char *)MAP_FAILED) return false;
  spans->region = region;
  spans->begun = TABLE_SPANS;
  spans->ready = TABLE_SPANS;
  for (size_t i = 0; i < BLOCK_SIZES; i++) spans->open[i] = &spans->full;
  return true;
}

void spans_destroy(Spans *spans) { munmap(spans->region, REGION_SIZE); }

void spans_stop(Spans *spans) {
  if (spans->stopped) return; /* and other threads may look at it now */
  spans->stopped = true;
  for (size_t i = 0; i < BLOCK_SIZES; i++) spans->open[i] = &spans->full;
}

/* ---- the lists ---- */

static void link_open(Spans *spans, Span *span) {
  Span **list = &spans->open[span->size];
  span->next = *list;
  span->link = list;
  span->next->link = &span->next;
  *list = span;
}

static void unlink_open(Span *span) {
  assert(span->link);
  *span->link = span->next;
  span->next->link = span->link;
  span->link = NULL;
}

/* Gives the system back the memory of the longest idle spans. */
static void give_back(Spans *spans, size_t count) {
  Span **link = &spans->idle;
  for (size_t i = count; i < spans->nidle; i++) link = &(*link)->next;
  Span *span = *link;
  *link = NULL;
  spans->nidle -= count;
  while (span) {
    Span *next = span->next;
    (void)madvise(memory_of(spans, span), SPAN_SIZE, MADV_DONTNEED);
    span->next = spans->cold;
    spans->cold = span;
    span = next;
  }
}

/* Checks now and then how many spans were idle all the time, and gives back their memory. Between two checks as many
   spans change as the program can fill and empty again twice. */
static void give_back_idle(Spans *spans) {
  if (spans->changes < LOOK_MIN || spans->changes / 4 < spans->nidle + spans->nbusy) return;
  if (spans->lowest > SPARE) give_back(spans, spans->lowest - SPARE);
  spans->lowest = spans->nidle;
  spans->changes = 0;
}

/* ---- spans ---- */

/* Makes the memory of the next few spans accessible, and their part of the table; false if the system refuses. */
static bool make_ready(Spans *spans) {
  size_t count = spans->begun / 8 > READY_MIN ? spans->begun / 8 : READY_MIN;
  if (count > SPANS_MAX - spans->ready) count = SPANS_MAX - spans->ready;
  if (count == 0) return false;
  size_t ready = spans->ready + count, table = (ready * sizeof(Span) + SPAN_SIZE - 1) / SPAN_SIZE * SPAN_SIZE;
  char *from = spans->region + (spans->ready << SPAN_BITS);
  if (mprotect(spans->region, table, PROT_READ | PROT_WRITE) != 0 ||
      mprotect(from, count << SPAN_BITS, PROT_READ | PROT_WRITE) != 0) {
    return false; /* uncovered: only when memory runs out */
  }
  spans->ready = ready;
  return true;
}

/* An empty span, or NULL if there is no memory for one. */
static Span *take_empty(Spans *spans) {
  spans->changes++;
  Span *span = spans->idle;
  if (span) {
    spans->idle = span->next;
    if (--spans->nidle < spans->lowest) spans->lowest = spans->nidle;
    return span;
  }
  span = spans->cold;
  if (span) {
    spans->cold = span->next;
    return span;
  }
  if (spans->begun == spans->ready && !make_ready(spans)) return NULL;
  return span_at(spans, spans->begun++);
}

static inline size_t blocks_of(size_t units) { return SPAN_SIZE / (units * BLOCK_UNIT); }

/* Adds a span of blocks of that size to its list; false if there is no memory for it. */
static bool begin(Spans *spans, size_t units) {
  Span *span = take_empty(spans);
  if (!span) return false;
  span->free = NULL;
  span->used = 0;
  span->low = 0;
  span->fresh = (uint16_t)blocks_of(units);
  span->size = (uint8_t)units;
  spans->nbusy++;
  link_open(spans, span);
  return true;
}

/* Puts the next few of a span's fresh blocks in its list of free ones. */
static void add_fresh(const Spans *spans, Span *span) {
  size_t size = (size_t)span->size * BLOCK_UNIT;
  size_t count = FRESH_BYTES / size;
  if (count > span->fresh) count = span->fresh;
  char *block = memory_of(spans, span) + (blocks_of(span->size) - span->fresh) * size;
  span->fresh = (uint16_t)(span->fresh - count);
  span->free = (Block *)(void *)block;
  for (; count > 1; count--, block += size) ((Block *)(void *)block)->next = (Block *)(void *)(block + size);
  ((Block *)(void *)block)->next = NULL;
}

void *spans_get(Spans *spans, size_t size) {
  if (spans->stopped) return NULL;
  size_t units = spans_units(size);
  void *block;
  while (!(block = spans_get_fast(spans, size))) {
    Span *span = spans->open[units];
    if (span == &spans->full) {
      if (!begin(spans, units)) return NULL;
    } else if (span->fresh > 0) {
      add_fresh(spans, span);
    } else {
      assert(span->used == blocks_of(units));
      unlink_open(span);
      span->low = (uint16_t)(span->used - 1);
    }
  }
  return block;
}

/* Makes an empty span available for blocks of any size. */
static void end(Spans *spans, Span *span) {
  unlink_open(span);
  span->size = 0;
  span->next = spans->idle;
  spans->idle = span;
  spans->nidle++;
  spans->nbusy--;
  spans->changes++;
  give_back_idle(spans);
}

void spans_put_last(Spans *spans, Span *span) {
  if (spans->stopped) return;
  if (!span->link) { /* it was full */
    span->low = 0;
    link_open(spans, span);
  }
  /* The last span of a size is kept. Otherwise making and freeing one block repeatedly would make and end a span each
     time. */
  bool is_last = spans->open[span->size] == span && span->next == &spans->full;
  if (span->used == 0 && !is_last) end(spans, span);
}
