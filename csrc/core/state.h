/* state.h: the structs of the core, and the slots (user values) in which its values are kept for the collector.

   One scheduler (Sched) belongs to one lua_State: to its main thread and all its coroutines. Everything hangs from it
   and nothing is static. It is a userdata and the first upvalue of every C function of runnel, so that each of them
   finds it without a look-up (SCHED_SELF). All memory is allocated through Lua: the collector accounts for it, and
   closing the state frees it.

   A channel (Chan) has two queues of waiters. A waiter (Waiter) is a put or take that has not completed. It belongs to
   an alt (Alt): one decision of one owner, with a waiter in the queue of each channel that could complete it. The first
   that does commits the alt, and all its waiters leave their queues at once. The owner is a go block (Go), or the
   operation that waits outside any go block (Sched.outside). */
#ifndef RUNNEL_STATE_H
#define RUNNEL_STATE_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/compat.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/windows.h"

typedef struct Alt Alt;
typedef struct Chan Chan;
typedef struct Sched Sched;

/* ---- waiting ---- */

typedef enum WaiterFlag {
  WAITER_FREE = 1,     /* of the library's own: does not count against the limit of pending operations */
  WAITER_GIVES_UP = 2, /* a put that completes with false when its channel closes; the channel has CHAN_GIVE_UP */
  WAITER_KEPT = 4,     /* its go block keeps the channel alive, also while somebody closes its coroutine */
  WAITER_SEEN = 8      /* first waiter of a go block: a sweep has seen it since it parked (root.c) */
} WaiterFlag;

/* A put or take that has not completed, in one queue of one channel. */
typedef struct Waiter {
  Link link;     /* in the queue; in no list once it is withdrawn */
  Chan *chan;    /* the channel */
  Alt *alt;      /* the alt that it belongs to */
  int at;        /* index in alt->co of the channel; the value of a put is at the next one */
  bool is_put;   /* in the queue of puts, else in that of takes */
  bool is_kept;  /* first waiter of a block: the block is in the scheduler's list (keep.h) */
  bool is_weak;  /* first waiter of a block: its go block is a weak root and may have been collected (ALT_WEAK) */
  uint8_t flags; /* of WaiterFlag */
} Waiter;

typedef enum AltState {
  ALT_IDLE,     /* running: nothing pending */
  ALT_PARKED,   /* waits on channels */
  ALT_SLEEPING, /* waits for its timer */
  ALT_READY,    /* committed: in the run queue, its results on its stack */
  ALT_DEAD,     /* the owner has ended */
  ALT_NEW       /* created, but not yet enqueued or ready; it stays so if an error comes in between */
} AltState;

typedef enum AltFlag {
  ALT_SELECT = 1,   /* an alts: its results are value, port */
  ALT_WEAK = 2,     /* of a go block that is a weak root: only its channels keep it alive (root.h) */
  ALT_CALLBACK = 4, /* of a callback (take_async, put_async), which must not park */
  ALT_RAISE = 8,    /* resumes by raising its one result */
  ALT_INDEX = 16,   /* an alts that returns the number of the operation instead of its port */
  ALT_BARE = 32,    /* co is not suspended in an operation: a mailbox, or a coroutine that has not started */
  ALT_CANCEL = 64,  /* of a go block that was cancelled and has not got the error: never while it is parked or asleep */
  ALT_LOOP = 128    /* a for loop's take, which drops the error with which the channel is closed */
} AltFlag;

/* The values of the operations, and later the results, are on the stack of a coroutine, `co`: the owner's own, or the
   mailbox of the operation outside any go block. */
struct Alt {
  union {
    Waiter waiter; /* of a single operation; when ready its link is in the run queue */
    Timer timer;   /* of a sleep */
    struct {
      Link link;       /* when ready: as that of the waiter */
      Waiter *waiters; /* of an alts (ALT_SELECT): alt_waiters */
    } alts;
  } own;
  int64_t since;             /* when it parked, as of the loop's last look at the clock */
  lua_State *co;             /* where values and results are; NULL once dead */
  struct SharedWait *shared; /* its operations on shared channels while it waits on any, else NULL (shared_wait.h) */
  uint32_t count;            /* waiters that are in queues */
  uint16_t nresults;         /* results (or a first resume's arguments) on top of co's stack, when ready */
  uint8_t state;             /* an AltState */
  uint8_t flags;             /* of AltFlag */
};

/* The waiters of an alt that is parked. */
static inline Waiter *alt_waiters(const Alt *alt) {
  return LIKELY(!(alt->flags & ALT_SELECT)) ? (Waiter *)&alt->own.waiter : alt->own.alts.waiters;
}

/* The stack of an alts: its block of waiters, and from ALT_FIRST_OP on two slots for each operation, the channel and
   the value of a put. */
enum { ALT_BLOCK = 3, ALT_FIRST_OP };

/* An operation as the program calls it; a constant of the C function that does it. */
typedef struct Operation {
  const char *name; /* its name in messages */
  bool is_put;      /* a put, else a take, if it is on a single channel */
  bool is_quiet;    /* on a shared channel: does not count as something that may still happen (driver_alive) */
  uint8_t waiter;   /* of WaiterFlag, for its waiters; WAITER_GIVES_UP only on a single channel */
  uint8_t flags;    /* of AltFlag, for the alt while it waits */
} Operation;

/* Whether an alt's operations are still on its stack: not while somebody closes its coroutine (coroutine.close). Before
   Lua 5.4.4 the status does not show that, but a coroutine that is being closed cannot yield. */
static inline bool alt_is_active(const Alt *alt) {
  bool waits = LIKELY(lua_status(alt->co) == LUA_YIELD) && (!BEFORE_LUA_5_4_4 || lua_isyieldable(alt->co));
  return waits || alt->flags & ALT_BARE;
}

/* ---- channels ---- */

/* User values of a channel. CHAN_ATTRS, the only one of a channel without a buffer, holds the table of attributes
   (attr.h), or the reason of CHAN_REASON_HERE. CHAN_VALUES holds the table that is the ring of a large buffer, or the
   policy object of BUFFER_POLICY. CHAN_STEP and CHAN_HANDLER, of channels with a transducer only, hold its step
   function and exception handler. A buffer of up to CHAN_INLINE values has its slots from CHAN_VALUES on, or behind
   CHAN_HANDLER: a message then needs no table. */
enum { CHAN_ATTRS = 1, CHAN_VALUES, CHAN_STEP, CHAN_HANDLER };

/* User values of a go block. Its attributes as a channel are in SCHED_ATTRS. The first user value holds
     its coroutine, while it is a strong root (root.h);
     what it waits on, while it is a weak root;
     its result, or its error (CHAN_REASON_HERE), once it has ended.
   GO_GIVE_UP and GO_FED, of one that feeds a channel only (go_spawn_feeding), hold the function to call if it dies, and
   that function's first argument. */
enum { GO_COROUTINE = CHAN_ATTRS, GO_WAITS = CHAN_ATTRS, GO_RESULT = CHAN_ATTRS, GO_GIVE_UP, GO_FED };

/* Values of the largest buffer whose slots are user values. */
enum { CHAN_INLINE = 128 };

typedef enum ChanFlag {
  CHAN_CLOSED = 1,            /* accepts no more puts */
  CHAN_XFORM = 2,             /* values go through a transducer */
  CHAN_FINISHED = 4,          /* the transducer's completion has run, or must not */
  CHAN_BUSY = 8,              /* its transducer, handler or policy is running */
  CHAN_CLOSE_LATER = 16,      /* closed while busy: closes when that ends */
  CHAN_REASON = 32,           /* closed with an error, which is an attribute, or in CHAN_ATTRS (CHAN_REASON_HERE) */
  CHAN_REASON_HERE = 64,      /* see CHAN_REASON */
  CHAN_RESULT = 128,          /* the result channel of a live go block, without a buffer yet */
  CHAN_TIMEOUT = 256,         /* a pending timeout: the timer will close it */
  CHAN_DONE = 512,            /* closes when another channel does, and is its own done() */
  CHAN_HAS_ATTRS = 1024,      /* it has a table of attributes */
  CHAN_GO = 2048,             /* the result channel of a go block, live or not */
  CHAN_ADMITTING = 4096,      /* a waiting put is being admitted, and others may wait although there is room */
  CHAN_DYING = 8192,          /* of a go block that has died, and whose variables are being closed (go_close.h) */
  CHAN_KILLED = 16384,        /* of a go block that dies at its next turn: somebody else has resumed its coroutine */
  CHAN_KEPT = 32768,          /* the scheduler keeps it alive while somebody waits on it (keep.h) */
  CHAN_FEEDS = 65536,         /* the result channel of a go block with GO_GIVE_UP and GO_FED */
  CHAN_ERROR_TAKEN = 131072,  /* somebody has taken the error with which it was closed (unhandled.h) */
  CHAN_GIVE_UP = 262144,      /* a put has waited on it that gives up when it closes (WAITER_GIVES_UP) */
  CHAN_BARE = 524288,         /* it has no user values: its attributes are kept as those of a go block */
  CHAN_DONE_SHARED = 1048576, /* with CHAN_DONE: of a shared channel, whose handle is in CHAN_VALUES */
  CHAN_FOREIGN = 2097152,     /* its buffer is BUFFER_POLICY or BUFFER_SHARED: its values are elsewhere */
  CHAN_LISTED = 4194304,      /* it is in the scheduler's list of what go blocks wait on (keep.h) */
  CHAN_SLOTS = 8388608,       /* its buffer is BUFFER_FIXED, and the slots are user values */
  CHAN_ERROR_KNOWN = 33554432 /* the error with which it is closed needs no further report (unhandled.h) */
} ChanFlag;

struct Chan {
  const void *tag;     /* &chan_tag: a faster test for a channel than comparing metatables */
  Sched *sched;        /* the scheduler that it belongs to */
  List puts;           /* waiting puts, first come first served */
  List takes;          /* waiting takes */
  uint64_t id;         /* unique in the scheduler; a go block has that of its result channel */
  uint64_t put_total;  /* puts accepted so far */
  uint32_t ntakes;     /* how many takes wait */
  uint32_t nputs;      /* how many puts wait */
  uint32_t flags;      /* of ChanFlag */
  Buffer buf;          /* the buffer's state. Without a buffer the channel's memory ends before its limit */
  uint64_t take_total; /* values taken so far; without a buffer that is put_total */
};

/* The size of a channel without a buffer. */
#define CHAN_UNBUFFERED_SIZE offsetof(Chan, buf.limit)

/* Its address is the tag of channels, and the scheduler's key in the registry. */
extern const char chan_tag;

/* The channel at index `i` of L, or NULL for anything else. */
static inline Chan *chan_to(lua_State *L, int i) {
  Chan *ch = (Chan *)lua_touserdata(L, i);
  /* A light userdata has no length; a foreign one may be shorter than the tag. */
  if (UNLIKELY(!ch || lua_rawlen(L, i) < CHAN_UNBUFFERED_SIZE || ch->tag != &chan_tag)) return NULL;
  return ch;
}

/* A go block; its userdata is also its result channel. While it lives, the channel has no buffer, and `alt` takes the
   memory of the buffer's fields. When it ends, it waits for nothing any more, and the channel gets its buffer (go.c). */
typedef struct Go {
  union {
    Chan chan; /* the result channel; its id is the go block's too */
    struct {
      char begin[CHAN_UNBUFFERED_SIZE]; /* of the channel */
      Alt alt;                          /* what it waits for; alt.co is its coroutine */
    };
  };
  uint32_t origin; /* the line of the program that called the library, which started it; or 0 (origin.h) */
  uint32_t slot;   /* its slot among the roots (root.h); 0 once it has ended */
} Go;

/* The go block whose result channel this is, or NULL. */
static inline Go *chan_to_go(Chan *ch) { return ch->flags & CHAN_GO ? CONTAINER_OF(ch, Go, chan) : NULL; }

/* The go block of an alt other than the outside one. */
static inline Go *sched_go(Alt *alt) { return CONTAINER_OF(alt, Go, alt); }

/* ---- the scheduler ---- */

/* The scheduler's userdata in any C function of runnel. */
#define SCHED_SELF lua_upvalueindex(1)

/* User values of the scheduler. */
enum {
  SCHED_STRONG = 1, /* table: slot -> what the slot of a go block holds (root.h) */
  SCHED_WEAK,       /* weak table: slot -> go block that only its channels keep alive */
  SCHED_SWEEP,      /* C function: sweeps slots; the next one makes the sentinel (root.c) */
  SCHED_SENTINEL,
  SCHED_SHRINK,      /* C function: replaces tables that have too much room (root_shrink.c) */
  SCHED_HEAP,        /* userdata: the entries of the timer heap */
  SCHED_TIMEOUTS,    /* table: pending timeouts by deadline (timer.c) */
  SCHED_MAILBOX,     /* thread: the stack of an operation that waits outside any go block */
  SCHED_ON_ERROR,    /* the error handler, or nil */
  SCHED_DRIVER,      /* the driver, or nil for the built-in one */
  SCHED_CHAN_META,   /* metatable of channels */
  SCHED_BUFFER_META, /* metatable of buffer descriptions */
  SCHED_REDUCED,     /* metatable of reduced values */
  SCHED_MSGH,        /* message handler that keeps the traceback of an error */
  SCHED_TRACEBACK,   /* that traceback */
  SCHED_POOL,        /* tables, SCHED_POOLS of them: blocks of waiters for alts, to use again (alts.c) */
  SCHED_POOL_END = SCHED_POOL + 1,
  SCHED_ATTRS, /* weak table: go block -> its attributes as a channel */
  SCHED_LOOP,  /* C functions: the protected parts of sched_run and of sched_step */
  SCHED_STEP,
  SCHED_TELL,             /* C function: passes an error to on_error or writes it */
  SCHED_DESCRIBE,         /* C function: describes a go block that has raised */
  SCHED_BURIED,           /* the error of a go block whose coroutine was closed or resumed by somebody else */
  SCHED_WAKEUP,           /* userdata that releases the wakeup, or nil as long as there is none (driver.c) */
  SCHED_PORTS,            /* userdata that holds port_hook, or nil without a port */
  SCHED_THREADS,          /* userdata with the threads that were started here, or nil without any (lua/thread.c) */
  SCHED_SHARING,          /* userdata that is `sharing`, or nil without a shared channel (chan_shared.c) */
  SCHED_GUARD,            /* the bottom of the stack of a go block's coroutine (go_close.h) */
  SCHED_CLOSER,           /* function of a coroutine that closes the variables of a dead go block; and */
  SCHED_MAKE_CLOSER,      /* the function that makes that coroutine (go_close.c) */
  SCHED_KEPT,             /* table: the list of what go blocks wait on (keep.h) */
  SCHED_UNHANDLED,        /* table: errors that nobody has taken yet; and */
  SCHED_KEEP_UNHANDLED,   /* the function that adds to it (unhandled.h) */
  SCHED_DESCRIBE_WAITING, /* C function: describes what an operation waits for (inspect.c) */
  SCHED_ORIGINS,          /* table: where the program has called the library (origin.h) */
  SCHED_WATCHER,          /* the function that another thread may ask the loop to call (watch.h), or nil */
  SCHED_TRACE,            /* userdata that is `tracer`, or nil */
  SCHED_NUSER = SCHED_TRACE
};

/* Sizes of blocks of waiters for which there is a pool, and blocks that each pool keeps. */
enum { SCHED_POOLS = 2, SCHED_POOL_BLOCKS = 64 };

/* Pending timeouts (timer.c). */
typedef struct Pending {
  Windows windows; /* which of them serves a request */
  uint32_t count;  /* how many there are */
  uint32_t size;   /* slots of SCHED_TIMEOUTS in use or free */
  uint32_t free;   /* the first free one, which names the next; 0: none */
} Pending;

/* What a simulation replaces as a whole. */
typedef struct World {
  struct World *outer;      /* the world that goes on when this one is over, or NULL */
  uint64_t first_id;        /* go blocks of this world have ids from here on */
  Clock clock;              /* the time */
  Heap heap;                /* sleepers and timeouts */
  Pending pending;          /* the timeouts among them */
  List ready;               /* the run queue: Alt.own.waiter.link of ready go blocks */
  uint32_t nready;          /* its length */
  bool shuffle;             /* run ready go blocks in random order */
  uint32_t stride;          /* resumes between two looks at the clock: adapted to how long go blocks run */
  uint32_t left;            /* of them, until the next look */
  uint32_t moves;           /* values that the library's go blocks have moved since one of them waited (lua/moving.c) */
  int64_t looked;           /* when the loop last looked at the clock, in ns */
  int64_t polled;           /* when it last polled the driver, in ns */
  uint64_t random;          /* state of the random numbers: never 0 */
  uint32_t unhandled;       /* errors that nobody has taken yet */
  uint32_t unhandled_first; /* number of the first of them in SCHED_UNHANDLED */
  int64_t unhandled_due;    /* when that one is to be reported */
} World;

/* Slots of go blocks that have ended, of which root.c keeps the numbers at hand. */
enum { ROOTS_RECENT = 32 };

/* The key of the sentinel in SCHED_WEAK (root.c); slots are numbered from 1. */
enum { ROOT_SENTINEL = 0 };

/* How much of a table that grows is in use, so that it can become smaller again (root_shrink.h). */
typedef struct TableUse {
  uint32_t room; /* entries that it has room for, at least */
  uint32_t most; /* the most that were in use in this lap */
  bool sparse;   /* during the whole last lap it had too much room */
} TableUse;

/* Bookkeeping of root.c. */
typedef struct Roots {
  uint32_t recent[ROOTS_RECENT]; /* free slots that are used first, the last one first */
  uint32_t nrecent;              /* how many */
  uint32_t size;                 /* slots in use or free */
  uint32_t free;                 /* first slot of the free list, each naming the next; 0: none */
  uint32_t strong;               /* strong roots: go blocks that the scheduler keeps alive */
  uint32_t weak;                 /* weak roots, including those that were collected but still have a slot */
  TableUse use;                  /* of the tables of slots */
  uint32_t moves;                /* how often the go blocks have moved to other slots (root_shrink.h) */
  uint32_t limit;                /* sweep when so many strong roots are not in the run queue */
  uint32_t next;                 /* the slot to sweep next; 0: a new lap */
  uint8_t lap;                   /* parity of the number of laps */
  bool sweeping;                 /* a sweep is running */
  bool is_cycle;                 /* it, or the last one, is that of a cycle of the collector */
  bool failed;                   /* the last sweep ended early because memory ran out */
} Roots;

/* Bookkeeping of keep.c. */
typedef struct Kept {
  uint32_t size;  /* entries */
  uint32_t next;  /* the entry to look at next; 0: a new lap */
  uint32_t limit; /* entries from which on the list is trimmed as it grows */
  TableUse use;   /* of the table */
} Kept;

/* What a wait must look at besides its channel and its go block: reasons to take the slow path (park.h). */
typedef enum ParkCheck {
  PARK_INSIDE = 1, /* Sched.inside is set */
  PARK_WAKES = 2,  /* Sched.parks_wake is set */
  PARK_KEPT = 4    /* the list of what go blocks wait on has grown to its limit (keep.h) */
} ParkCheck;

/* The origin that was looked up last (origin.c). */
typedef struct LastOrigin {
  const char *what;        /* the function that the program has called; only compared */
  int line;                /* line of the call */
  char source[LUA_IDSIZE]; /* file of the call */
  uint32_t number;         /* the origin */
} LastOrigin;

struct Sched {
  World world;                     /* time and the run queue */
  const struct Observer *observer; /* who is told of all that happens (observe.h), or NULL */
  const struct Observer *births;   /* who is told of new channels, or NULL */
  struct Trace *tracer;            /* the trace (trace.h), on or off; or NULL if it never was on */
  Go *current;                     /* the go block that is running, or NULL */
  Chan *parks_wake;                /* with PARK_WAKES: when the running go block parks, a take on it completes */
  Go *awaited;                     /* the go block whose end the loop waits for, or NULL */
  Alt outside;                     /* the operation that waits outside any go block; its results go to the mailbox */
  uint8_t park_checks;             /* of ParkCheck; nearly always 0 */
  bool running;                    /* the loop is running, further down on the C stack */
  bool stop;                       /* what the loop waits for has come */
  bool errors_pass;                /* errors that were printed do not change the exit status (rn.exit) */
  bool gives_up;                   /* a go block has died, and closes what it feeds with its error (go.c) */
  Kept kept;                       /* bookkeeping of SCHED_KEPT */
  int nested;                      /* callbacks that are being called within one another (take_async, put_async) */
  lua_State *closing;          /* coroutine of a dead go block whose variables are being moved (go_close.h), or NULL */
  lua_State *closer;           /* coroutine to which variables are moved while that of a go block is closed, or NULL */
  const char *inside;          /* the kind of user code that is being called where waiting is impossible, or NULL */
  uint8_t pooled[SCHED_POOLS]; /* blocks of waiters in each pool */
  const void *checked;    /* the list of operations whose fields an alts has checked last (lua/alts.c); only compared */
  Roots roots;            /* bookkeeping of SCHED_STRONG */
  struct Wakeup *wakeup;  /* how other threads wake the scheduler (driver.h); NULL as long as they need not */
  bool wakeup_is_watched; /* the driver's waits end when the wakeup is signalled */
  struct PortHook *port_hook;         /* messages from other threads (driver.h), or NULL without a port */
  struct runnel_task *tasks;          /* what C modules want to be done before the next wait (capi/runnel.h), or NULL */
  void (*run_tasks)(struct Sched *S); /* does them, and empties the list; must not raise */
  struct Sharing *sharing;            /* what shared channels need (shared_wait.h), or NULL without one */
  struct Watch *watch;                /* another thread that looks at the scheduler (watch.h), or NULL */
  uint64_t next_id;                   /* for the next channel or go block */
  int64_t grace;                      /* how long an error may wait to be taken, in ns */
  uint64_t printed;                   /* errors that were written to stderr, since there was no handler */
  LastOrigin last_origin;             /* of origin.c */
};

/* The scheduler of the C function that is running. */
static inline Sched *sched_self(lua_State *L) { return (Sched *)lua_touserdata(L, SCHED_SELF); }

/* Sets or clears one of the park checks. */
static inline void sched_check_parks(Sched *S, ParkCheck check, bool on) {
  if (on) S->park_checks |= (uint8_t)check;
  else S->park_checks &= (uint8_t)~check;
}

/* Notes what kind of user code is called, inside which waiting is impossible; NULL: none. Returns what it was. */
static inline const char *sched_set_inside(Sched *S, const char *inside) {
  const char *outer = S->inside;
  S->inside = inside;
  sched_check_parks(S, PARK_INSIDE, inside != NULL);
  return outer;
}

#endif
