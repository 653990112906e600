/* trace.h: what the scheduler and the channels do, for those who watch: the prompt's commands, the flight recorder, the
   graph, the monitor.

   There are three parts, each switched on while somebody holds it:

   - the list of all channels, which are referred to weakly;
   - the edges: how many values the go blocks of each name have put on, and taken from, each channel;
   - the ring: the last records of what has happened, of a fixed size and a fixed number.

   While neither edges nor ring are held, and nobody taps a channel, S->trace is NULL: each place that would record
   something tests that and nothing else. The clock is read once per resume, so records of one run of a go block have
   the same time; their order is exact.

   A label is a number for a name: that of a go block, or of a channel. A label is found when a go block runs first, or a
   channel is made, and is in its Buffer, which has room for it. Each record has the label of its go block. So the dead
   keep their names.

   Ids in records are the low 32 bits of a go block's or channel's id; the scheduler would need 2^32 go blocks and
   channels to use one again. */
#ifndef RUNNEL_TRACE_H
#define RUNNEL_TRACE_H

#include "core/state.h"

/* ---- labels ---- */

/* Labels that are no name's. */
enum {
  TRACE_UNKNOWN = 0,    /* not found yet */
  TRACE_MAIN,           /* the main program; its id is 0 */
  TRACE_DRIVER,         /* the scheduler itself: callbacks of the driver, timers, other threads; its id is 0 */
  TRACE_FIRST,          /* the first that is a name's */
  TRACE_OTHER = 0xFFFE, /* names that came after all labels were in use */
  TRACE_HIDDEN = 0xFFFF /* of what watches: it is not recorded */
};

/* Pushes the name of a label; "?" for TRACE_UNKNOWN. */
void trace_push_label(lua_State *L, Sched *S, uint16_t label);

/* The label of a channel or, of a result channel, the name of its go block. */
static inline uint16_t trace_label(const Chan *ch) { return ch->buf.label; }

/* The channel at index `at` has got a name. Finds its label again. May raise. */
void trace_named(lua_State *L, Chan *ch, int at);

/* The go block has got the name on top of L, which is popped. May raise. */
void trace_renamed(lua_State *L, Go *go);

/* Hides a channel or a go block: from now on nothing of it is recorded, and what it makes is hidden, too. */
static inline void trace_hide(Chan *ch) { ch->buf.label = TRACE_HIDDEN; }

/* ---- switching on and off ---- */

typedef enum TracePart { TRACE_LIST = 1, TRACE_EDGES = 2, TRACE_RING = 4 } TracePart;

/* The sizes of the ring, in records: rounded up to a power of 2. */
enum { TRACE_LEAST = 1 << 8, TRACE_DEFAULT = 1 << 16, TRACE_MOST = 1 << 24 };

/* Holds parts (of TracePart): they stay on until trace_release is called as often. TRACE_EDGES and TRACE_RING hold the
   list, too. `records`, with TRACE_RING: the least size of the ring, which is emptied if it must grow. Channels that were
   made while there was no list are in it as soon as somebody puts on them or waits. May raise; then nothing is held. */
void trace_hold(lua_State *L, Sched *S, unsigned parts, uint32_t records);

/* Ends a hold of parts. A part that nobody holds is switched off, and its memory is freed; labels stay. */
void trace_release(lua_State *L, Sched *S, unsigned parts);

/* Calls the function on top of L, which is popped, as f(value, waits) for each value that is put on the channel at index
   `at`: once it is put, or once its put waits (`waits`). The function must not park. One channel at a
   time has such a function; nil on top ends that of this channel. May raise. */
void trace_tap(lua_State *L, Sched *S, int at);

/* ---- the ring ---- */

typedef enum TraceKind {
  TRACE_RUN = 1, /* a go block is resumed, or the main program goes on */
  TRACE_PARK,  /* it has parked: `what` it does (TraceWhat), `chan` on which channel, or the first of `seq` channels */
  TRACE_SPAWN, /* the go block `seq` was started by `go` */
  TRACE_END,   /* it has ended */
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
  TRACE_DIRECT = 1, /* the value went from the one to the other, without the buffer */
  TRACE_FIFO = 2,   /* `seq` is the number of the put or take on this channel: the nth put is the nth take. Without it
                       `seq` is how many values the buffer holds then, if that is known */
  TRACE_WAITED = 4, /* `go` was parked; another go block has completed its operation */
  TRACE_RESULT = 8, /* `chan` is the result channel of the go block with the same id */
  TRACE_TIMEOUT = 16
} TraceHow;

typedef struct TraceRecord {
  int64_t time;   /* in ns, of the run that it belongs to; never less than that of the record before */
  uint32_t go;    /* id of the go block; 0: see `label` */
  uint32_t chan;  /* id of the channel, or 0 */
  uint32_t seq;   /* see TraceKind */
  uint8_t kind;   /* a TraceKind */
  uint8_t what;   /* see TraceKind */
  uint16_t label; /* of the go block */
} TraceRecord;

/* ---- the edges ---- */

/* Who puts on a channel, and takes from it. Free if `key` is 0. */
typedef struct TraceEdge {
  uint64_t key;   /* see trace_edge_chan and so on */
  uint64_t puts;  /* values put so far */
  uint64_t takes; /* values taken */
} TraceEdge;

/* The label of the go blocks. */
static inline uint16_t trace_edge_label(const TraceEdge *e) { return (uint16_t)(e->key >> 32); }

/* Whether these are result channels: those of all go blocks whose label is trace_edge_chan. */
static inline bool trace_edge_is_result(const TraceEdge *e) { return (e->key >> 48) != 0; }

/* The id of the channel. */
static inline uint32_t trace_edge_chan(const TraceEdge *e) { return (uint32_t)e->key; }

/* ---- the list of channels ---- */

/* A channel in the list, or one that has been collected while records of it may be in the ring. */
typedef struct TraceChan {
  uint64_t id;    /* its id */
  uint64_t gone;  /* 0; or where the ring was when it was found to be collected, plus 1 */
  uint16_t label; /* its label: its name, or where it was made */
  bool is_named;  /* the label is its name */
} TraceChan;

/* Pushes the channel of list entry i, from 0, and returns it; or pushes nothing and returns NULL if it has been
   collected or is hidden. */
Chan *trace_push_chan(lua_State *L, Sched *S, uint32_t i);

/* ---- all of it ---- */

typedef struct Trace {
  uint32_t holds[3];     /* holds of the list, the edges, the ring */
  bool is_tapped;        /* there is a function for a tapped channel */
  bool is_busy;          /* the list or the edges are being swept: finalizers must not sweep them as well */
  bool has_ended;        /* the go block that runs has ended */
  bool was_virtual;      /* the clock that was read last was virtual */
  uint32_t running;      /* id of the go block that runs, or 0 */
  int64_t now;           /* when the clock was read last, in ns */
  int64_t offset;        /* what to add to the clock: simulations begin at 0, and time must not go back */
  TraceRecord *ring;     /* the ring; of one record while it is not held */
  uint64_t next;         /* records written so far */
  uint64_t began;        /* the first of them that is in this ring */
  uint32_t mask;         /* its size - 1 */
  uint32_t edges_mask;   /* slots for edges - 1 */
  uint32_t edges_used;   /* slots in use */
  TraceEdge *edges;      /* hash table with open addressing, or NULL */
  TraceEdge *hot[2];     /* the edge that was counted last: of takes, of puts */
  uint64_t edges_lost;   /* puts and takes that were not counted, since the table was full */
  TraceChan *chans;      /* entries of the list */
  uint32_t nchans;       /* how many there are */
  uint32_t chans_size;   /* and for how many there is room */
  uint32_t nlabels;      /* labels in use, those that are no name's included */
  const Chan *tapped;    /* the tapped channel, or NULL */
  TraceRecord unheld[1]; /* the ring while it is not held */
} Trace;

/* The trace of the scheduler, if any part was ever held: while it is off, too; or NULL. */
static inline Trace *trace_of(const Sched *S) { return S->tracer; }

/* The number of the oldest record in the ring; t->next is behind the newest one. */
static inline uint64_t trace_first(const Trace *t) {
  return t->next - t->began > t->mask ? t->next - t->mask - 1 : t->began;
}

/* Record n, from trace_first(t) to t->next - 1. */
static inline const TraceRecord *trace_at(const Trace *t, uint64_t n) { return &t->ring[n & t->mask]; }

/* The time that a record would have now, in ns. */
int64_t trace_now(Sched *S);

/* The id whose low 32 bits these are: the highest one so far. */
static inline uint64_t trace_whole_id(const Sched *S, uint32_t id) {
  return S->next_id - (uint32_t)((uint32_t)S->next_id - id);
}

/* ---- the places: only if S->trace ---- */

/* Before a resume: finds the label of the go block. Returns false if it is not to be resumed any more, since a finalizer
   has run. Does not raise. */
bool trace_prepare(lua_State *L, Sched *S, Go *go);

/* It is resumed now. */
void trace_run(Sched *S, Go *go);

/* It has yielded: it is parked, asleep or ready, unless it has ended. Does not raise. */
void trace_left(lua_State *L, Sched *S, const Alt *alt);

/* The main program runs the loop, and goes on. */
void trace_main_leaves(lua_State *L, Sched *S);
void trace_main_runs(Sched *S);

/* Nothing is ready: the scheduler waits. */
void trace_idle(Sched *S);

/* A go block, whose userdata is at index `at`, was started. Does not raise. */
void trace_spawn(lua_State *L, Sched *S, Go *go, int at);

/* A go block has ended. */
void trace_end(Sched *S, const Go *go);

/* The sleep of an alt is over. */
void trace_timer(Sched *S, const Alt *alt);

/* A channel, at index `at`, was made; if S->listing. May raise. */
void trace_born(lua_State *L, Sched *S, int at);

/* The caller has put the value at index `value`; a waiting take of `taker` got it, or (NULL) the buffer. Only when the
   operation is complete: this may run finalizers, and the function of a tap. Does not raise. */
void trace_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker);

/* The caller has taken a value: from a waiting put of `putter`, or (NULL) from the buffer. */
void trace_take(Chan *ch, const Alt *putter);

/* The value of a waiting put has gone to the buffer. */
void trace_admit(Chan *ch, const Alt *putter);

/* A waiting take has got a value of the buffer. */
void trace_serve(Chan *ch, const Alt *taker);

/* The channel is closed. */
void trace_close(const Chan *ch);

#endif
