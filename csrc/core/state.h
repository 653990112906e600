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

#include "base/clock.h"
#include "base/windows.h"
#include "core/go_state.h"

/* The scheduler's userdata in any C function of runnel. */
#define SCHED_SELF lua_upvalueindex(1)

/* User values of the scheduler. */
enum {
  SCHED_STRONG = 1,  /* table: go blocks that the scheduler keeps alive (root_table.c) */
  SCHED_WEAK,        /* weak table: go blocks that only their channels keep alive */
  SCHED_SWEEP,       /* C function: the protected part of a sweep (root.c) */
  SCHED_SENTINEL,    /* C function: makes the sentinel (root.c) */
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
  SCHED_ATTRS,         /* weak table: go block -> its attributes as a channel; policy of a channel -> true */
  SCHED_RUN,           /* C function: the protected part of sched_run and of sched_step */
  SCHED_REPORT,        /* C function: passes an error to on_error or writes it */
  SCHED_DESCRIBE,      /* C function: describes a go block that has raised */
  SCHED_BURIED,        /* the error of a go block whose coroutine was closed or resumed by somebody else */
  SCHED_WAKEUP,        /* userdata that releases the wakeup, or nil as long as there is none (driver.c) */
  SCHED_PORTS,         /* userdata that holds port_hook, or nil without a port */
  SCHED_THREADS,       /* userdata with the threads that were started here, or nil without any (lua/thread.c) */
  SCHED_SHARING,       /* userdata that is `sharing`, or nil without a shared channel (chan_shared.c) */
  SCHED_GUARD,         /* the bottom of the stack of a go block's coroutine (go_close.h) */
  SCHED_CLOSER,        /* function of a coroutine that closes the variables of a dead go block; and */
  SCHED_MAKE_CLOSER,   /* the function that makes that coroutine (go_close.c) */
  SCHED_CLOSE,         /* C function: closes a channel that needs memory for that (go.c) */
  SCHED_KEPT,          /* table: the list of what go blocks wait on (keep.h) */
  SCHED_UNHANDLED,     /* table: errors that nobody has taken yet; and */
  SCHED_ADD_UNHANDLED, /* the function that adds to it (unhandled.h) */
  SCHED_ELSEWHERE,     /* the function that adds to a traceback that of another thread (error.h), or nil */
  SCHED_REPORTS,       /* table: the functions that write the errors of deadlocks and leaks (inspect.h), or nil */
  SCHED_ORIGINS,       /* table: where the program has called the library (origin.h) */
  SCHED_SNAPSHOT,      /* table: the go blocks for a snapshot that is being filled (snapshot.c), or nil */
  SCHED_WATCHER,       /* the function that another thread may ask the loop to call (watch.h), or nil */
  SCHED_TRACE,         /* userdata that is `tracer`, or nil */
  SCHED_NUSER = SCHED_TRACE
};

/* Sizes of blocks of waiters for which there is a pool, and blocks that each pool keeps. */
enum { SCHED_POOLS = 2, SCHED_POOL_BLOCKS = 64 };

/* Pending timeouts (timer.c). */
typedef struct Pending {
  Windows windows; /* which of them serves a request */
  uint32_t size;   /* slots of SCHED_TIMEOUTS in use or free */
  uint32_t free;   /* the first free one, which names the next; 0: none */
} Pending;

/* What a simulation replaces as a whole. */
typedef struct World {
  struct World *outer;          /* the world that goes on when this one is over, or NULL */
  uint64_t first_id;            /* go blocks of this world have ids from here on */
  uint32_t living;              /* how many of these are roots; more if the collector has taken some, or if they ended
                                   in an inner world */
  Clock clock;                  /* the time */
  Heap heap;                    /* sleepers and timeouts */
  Pending pending;              /* the timeouts among them */
  List ready;                   /* the run queue: Alt.own.waiter.link of ready go blocks */
  uint32_t nready;              /* its length */
  const struct SimRules *rules; /* of a simulation (sim_rules.h), else NULL */
  struct Explore *explore;      /* what makes a simulation's choices (sim/explore.h), or NULL */
  int64_t steps_ns;   /* what the steps of `explore` add to the clock of a trace, since virtual time stands still */
  uint32_t stride;    /* resumes between two looks at the clock: adapted to how long go blocks run */
  uint32_t left;      /* resumes left until the next look */
  int64_t looked;     /* when the loop last looked at the clock, in ns */
  int64_t polled;     /* when it last polled the driver, in ns */
  uint64_t random;    /* state of the random numbers: never 0 */
  uint32_t unhandled; /* errors that nobody has taken yet */
  uint32_t unhandled_first; /* number of the first of them in SCHED_UNHANDLED */
  int64_t unhandled_due;    /* when that one is to be reported */
} World;

/* Bookkeeping of root.c and root_table.c. */
typedef struct Roots {
  uint32_t strong;      /* strong roots: go blocks that the scheduler keeps alive */
  uint32_t weak;        /* weak roots, including those that were collected and that no sweep has removed yet */
  uint32_t room;        /* entries of SCHED_STRONG: at least as many as roots of both kinds */
  uint32_t limit;       /* a go block that is started sweeps if so many strong roots are not in the run queue */
  uint32_t next_strong; /* the strong root that the next sweep visits first; 0: the last one */
  uint32_t next_weak;   /* the same of the weak roots */
  uint32_t due;         /* roots that the last cycle of the collector has left for the loop to visit */
  int64_t last_cycle;   /* World.looked in that cycle */
  bool sweeping;        /* a sweep is running */
  bool is_cycle;        /* it, or the last one, is that of a cycle of the collector */
  bool failed;          /* the last sweep ended early because memory ran out */
} Roots;

/* Bookkeeping of keep.c. */
typedef struct Kept {
  uint32_t size;  /* entries */
  uint32_t room;  /* the most entries that there were in this table */
  uint32_t next;  /* the entry that is checked next; 0: the last one, with which a round begins */
  uint32_t found; /* entries that this round has found to be needed */
  uint32_t limit; /* whoever adds entries checks some first if there are so many */
} Kept;

struct Sched {
  World world;                     /* time and the run queue */
  const struct Observer *observer; /* who records what happens (observe.h), or NULL */
  const struct Observer *births;   /* who records new channels, or NULL */
  struct Trace *tracer;            /* the trace (trace.h), on or off; or NULL if it never was on */
  Go *current;                     /* the go block that is running, or NULL */
  Chan *on_park;                   /* NULL, or a channel without a buffer: when the running go block parks, the first
                                      take that waits on it completes with true. Who sets this keeps it alive */
  Go *awaited;                     /* the go block whose end the loop waits for, or NULL */
  Alt outside;                     /* the operation that waits outside any go block; its results go to the mailbox */
  uint32_t moves;                  /* values that the library has moved since a go block was resumed (lua/moving.h) */
  uint32_t vain;                   /* operations that came to nothing since the loop has run (park.h) */
  bool running;                    /* the loop is running, further down on the C stack */
  bool stop;                       /* what the loop waits for has come */
  bool is_stuck;                   /* no other thread will end this wait: all wait for each other (family.h) */
  bool errors_pass;                /* errors that were printed do not change the exit status (--errors=warn) */
  bool gives_up;                   /* a give_up function is running, since a go block has died (go.c) */
  Kept kept;                       /* bookkeeping of SCHED_KEPT */
  int nested;                      /* callbacks that are being called within one another (take_async, put_async) */
  lua_State *closing;          /* coroutine of a dead go block whose variables are being moved (go_close.h), or NULL */
  lua_State *closer;           /* coroutine to which variables are moved while that of a go block is closed, or NULL */
  lua_CFunction pcalls[2];     /* pcall and xpcall of the standard library, or NULL */
  const char *inside;          /* the kind of user code that is being called where waiting is impossible, or NULL */
  uint8_t pooled[SCHED_POOLS]; /* blocks of waiters in each pool */
  Roots roots;                 /* bookkeeping of SCHED_STRONG */
  struct Wakeup *wakeup;       /* how other threads wake the scheduler (driver.h); NULL as long as they need not */
  bool wakeup_is_watched;      /* the driver's waits end when the wakeup is signalled */
  bool input_is_watched;       /* they end when standard input is readable, too: the host's prompt waits for it */
  struct PortHook *port_hook;  /* messages from other threads (others.h), or NULL without a port */
  struct runnel_task *tasks;   /* what C modules want to be done before the next wait (capi/runnel.h), or NULL */
  void (*run_tasks)(struct Sched *S); /* does them, and empties the list; must not raise */
  struct Sharing *sharing;            /* what shared channels need (shared_wait.h), or NULL without one */
  const struct Others *others;        /* functions for waits on shared channels (others.h), or NULL without one */
  const struct WatchHook *watch_hook; /* what the loop calls for `watch` (observe.h), or NULL */
  struct Watch *watch;                /* another thread that looks at the scheduler (watch.h), or NULL */
  uint64_t next_id;                   /* for the next channel or go block */
  int64_t grace;                      /* how long an error may wait to be taken, in ns */
  uint64_t printed;                   /* errors that were written to stderr, since there was no handler */
};

/* The scheduler of the C function that is running. */
static inline Sched *sched_self(lua_State *L) { return (Sched *)lua_touserdata(L, SCHED_SELF); }

/* Whether a go block belongs to the running simulation, if there is one. Those of outer worlds may be parked. */
static inline bool sched_is_of_world(const Sched *S, const Go *go) { return go->chan.id >= S->world.first_id; }

#endif
