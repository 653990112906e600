/* chan_stats.h: the statistics of a channel, of one state or shared between threads. */
#ifndef RUNNEL_CHAN_STATS_H
#define RUNNEL_CHAN_STATS_H

#include <stdbool.h>

#include "base/buffer.h"

typedef struct ChanStats {
  BufferKind kind; /* of its buffer; never changes */
  uint32_t limit;  /* values the buffer holds */
  uint32_t count;  /* values in the buffer */
  uint32_t ntakes; /* waiting takes */
  uint32_t nputs;  /* waiting puts */
  uint64_t puts;   /* values accepted */
  uint64_t takes;  /* values taken */
  bool closed;     /* no more puts */
  /* Only for shared channels: */
  bool reason_taken; /* a take has got the reason of the close */
  bool puts_full;    /* one more put may not wait */
  bool takes_full;   /* one more take may not wait */
} ChanStats;

#endif
