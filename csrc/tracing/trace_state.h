/* trace_state.h: the structs of a trace: labels, records, edges, the list of channels. See trace.h. */
#ifndef RUNNEL_TRACE_STATE_H
#define RUNNEL_TRACE_STATE_H

#include <stdatomic.h>

#include "core/state.h"

/* ---- labels ---- */

/* Labels that do not stand for a name. */
enum {
  TRACE_UNKNOWN = 0,         /* not found yet */
  TRACE_MAIN,                /* the main program; its id is 0 */
  TRACE_DRIVER,              /* the scheduler itself: callbacks of the driver, timers, other threads; its id is 0 */
  TRACE_FIRST,               /* the first that stands for a name */
  TRACE_OTHER = 0xFFFE,      /* names that came after all labels were in use */
  TRACE_HIDDEN = CHAN_HIDDEN /* not recorded: a go block or channel that only the library uses */
};

/* The label of a channel or, of a result channel, the name of its go block. */
static inline uint16_t trace_label(const Chan *ch) { return ch->buf.label; }

/* Whether it is a label that has been found, and is recorded. */
static inline bool trace_label_is_shown(uint16_t label) { return label != TRACE_UNKNOWN && label != TRACE_HIDDEN; }

/* ---- the ring ---- */

/* Its sizes, in records: rounded up to a power of 2. */
enum { TRACE_LEAST = 1 << 8, TRACE_DEFAULT = 1 << 16, TRACE_MOST = 1 << 24 };

typedef enum TraceKind {
  TRACE_RUN = 1, /* a go block is resumed, or the main program goes on */
  TRACE_PARK,  /* it has parked: `what` it does (TraceWhat), `chan` on which channel, or the first of `seq` channels */
  TRACE_SPAWN, /* the go block `seq` was started by `go` */
  TRACE_END,   /* it has ended; `what` is 1: by an error */
  TRACE_IDLE,  /* nothing is ready: the scheduler waits for a timer or the driver */
  TRACE_PUT,   /* it has put a value on `chan` (TraceHow) */
  TRACE_TAKE,  /* it has taken one */
  TRACE_CLOSE, /* it has closed `chan`; or a timeout is over (TRACE_TIMEOUT) */
  TRACE_CHAN,  /* it has made `chan`; `seq` is the label of the channel */
  TRACE_TIMER  /* its sleep is over */
} TraceKind;

/* `what` of TRACE_PARK. */
typedef enum TraceWhat {
  TRACE_ON_TAKE,
  TRACE_ON_PUT,
  TRACE_ON_ALTS,
  TRACE_ON_SLEEP,
  TRACE_ON_YIELD, /* it lets others run */
  TRACE_ON_LOOP   /* the main program runs the scheduler: rn.run, rn.step, rn.sim.run */
} TraceWhat;

/* `what` of TRACE_PUT, TRACE_TAKE and TRACE_CLOSE: flags. */
typedef enum TraceHow {
  TRACE_DIRECT = 1, /* the value was handed off, without the buffer */
  TRACE_FIFO = 2,   /* `seq` is the number of the put or take on this channel: the nth put is the nth take. Without this
                       and TRACE_BETWEEN `seq` is how many values the buffer holds then, or TRACE_UNCOUNTED */
  TRACE_WAITED = 4, /* `go` was parked; another go block has completed its operation */
  TRACE_RESULT = 8, /* `chan` is the result channel of the go block with the same id */
  TRACE_TIMEOUT = 16,
  TRACE_BETWEEN = 32 /* `chan` is shared, and `seq` the number of the value's put in any state, or 0: it has none */
} TraceHow;

/* The buffer is a policy: asking it would run the program's code. */
enum { TRACE_UNCOUNTED = 0x7FFFFFFF };

typedef struct TraceRecord {
  int64_t time;   /* in ns: of the run in which it was written; never less than the time of the record before */
  uint32_t go;    /* id of the go block; 0: see `label` */
  uint32_t chan;  /* id of the channel, or 0 */
  uint32_t seq;   /* see TraceKind */
  uint8_t kind;   /* a TraceKind */
  uint8_t what;   /* see TraceKind */
  uint16_t label; /* of the go block */
} TraceRecord;

/* ---- the edges ---- */

/* Puts and takes of the go blocks of one label on a channel. Free if `key` is 0. */
typedef struct TraceEdge {
  uint64_t key;   /* see trace_edge_chan and so on */
  uint64_t puts;  /* values put so far */
  uint64_t takes; /* values taken */
} TraceEdge;

/* The label of the go blocks. */
static inline uint16_t trace_edge_label(const TraceEdge *e) { return (uint16_t)(e->key >> 32); }

/* Whether it stands for the result channels of all go blocks whose label is trace_edge_chan. */
static inline bool trace_edge_is_result(const TraceEdge *e) { return (e->key >> 48) != 0; }

/* The id of the channel. */
static inline uint32_t trace_edge_chan(const TraceEdge *e) { return (uint32_t)e->key; }

/* ---- the list of channels ---- */

/* A channel in the list, or one that has been collected while records of it may be in the ring. */
typedef struct TraceChan {
  uint64_t id;     /* its id */
  uint64_t shared; /* the id of its shared channel, if it is a handle; or 0 */
  uint64_t gone;   /* 0; or where the ring was when it was found to be collected, plus 1 */
  uint16_t label;  /* its label: its name, or where it was made */
  bool is_named;   /* the label is its name */
} TraceChan;

/* ---- all of it ---- */

/* The running code: the label in the high 32 bits, the id of the go block in the low ones. Other threads may read
   it. */
typedef _Atomic uint64_t TraceRunning;

typedef struct Trace {
  uint32_t holds[4];    /* holds of the list, the edges, the ring, the contexts */
  bool is_on;           /* the edges, the ring or a tap are on */
  bool is_tapped;       /* there is a function for a tapped channel */
  bool is_tight;        /* the table of edges is so full that it must grow */
  bool was_virtual;     /* the clock that was read last was virtual */
  TraceRunning running; /* the go block that runs and has not ended, or the main program; 0: neither */
  int64_t now;          /* when the clock was read last, in ns */
  int64_t offset;       /* what to add to the clock: simulations begin at 0, and time must not go back */
  TraceRecord *ring;    /* the ring, or NULL */
  uint64_t next;        /* records written so far */
  uint64_t began;       /* the first of them that is in this ring */
  uint32_t mask;        /* its size - 1 */
  uint32_t edges_mask;  /* slots for edges - 1 */
  uint32_t edges_used;  /* slots in use */
  uint32_t edges_limit; /* with more of them in use the table is tight */
  TraceEdge *edges;     /* hash table with open addressing, or NULL */
  uint64_t edges_lost;  /* puts and takes that were not counted, since the table was full */
  TraceChan *chans;     /* entries of the list */
  uint32_t nchans;      /* how many there are */
  uint32_t chans_size;  /* and for how many there is room */
  uint32_t nlabels;     /* labels in use, those that are no name's included */
  const Chan *tapped;   /* the tapped channel, or NULL */
  struct Story *story;  /* a story that also gets each record (story.h), or NULL */
  bool hears_errors;    /* there is a function for unhandled errors (trace_copy.h) */
  bool is_copy_due;     /* the error that is about to be reported is the one that `copy` is for */
  TraceRecord *copy;    /* the copy of the ring for an error, or NULL */
  uint32_t copy_mask;   /* its size - 1 */
  uint64_t copy_first;  /* the first record in it */
  uint64_t copy_next;   /* the number behind the last one */
  int64_t copy_now;     /* when it was made */
} Trace;

/* The functions that record (trace.c): on SEAT_TRACE while the edges or the ring are held or a channel is tapped; and
   Sched.births while the list is held. */
extern const struct Observer trace_observer;

/* The same while only the edges are held: puts and takes are counted, and nothing is recorded. */
extern const struct Observer trace_counts_observer;

/* Whether anything is recorded but the list of channels and contexts. */
static inline bool trace_is_on(const Sched *S) { return S->tracer && S->tracer->is_on; }

/* Entries in the list of channels; 0 while there is none. */
static inline uint32_t trace_nchans(const Sched *S) { return S->births ? S->tracer->nchans : 0; }

/* Notes which go block runs; NULL: none. */
static inline void trace_set_running(Trace *t, const Go *go) {
  uint64_t running = go ? (uint64_t)go->chan.buf.label << 32 | (uint32_t)go->chan.id : 0;
  atomic_store_explicit(&t->running, running, memory_order_relaxed);
}

/* Notes whether the main program runs. */
static inline void trace_set_main_running(Trace *t, bool runs) {
  atomic_store_explicit(&t->running, runs ? (uint64_t)TRACE_MAIN << 32 : 0, memory_order_relaxed);
}

static inline uint64_t trace_running(const Trace *t) { return atomic_load_explicit(&t->running, memory_order_relaxed); }

/* The number of the oldest record in the ring; t->next is behind the newest one. */
static inline uint64_t trace_first(const Trace *t) {
  return t->next - t->began > t->mask ? t->next - t->mask - 1 : t->began;
}

/* The number of the oldest record that is in the ring or in the copy for an error. */
static inline uint64_t trace_oldest(const Trace *t) {
  uint64_t first = trace_first(t);
  return t->copy && t->copy_first < first ? t->copy_first : first;
}

/* Record n, from trace_first(t) to t->next - 1. */
static inline const TraceRecord *trace_at(const Trace *t, uint64_t n) { return &t->ring[n & t->mask]; }

/* The id whose low 32 bits these are: the highest one that is not above `last`. */
static inline uint64_t trace_whole_id(uint64_t last, uint32_t id) { return last - ((uint32_t)last - id); }

#endif
