/* state.h: the structs of the core, and the scheduler's user values, which keep its values alive for the collector.

   One scheduler (Sched) belongs to one lua_State: its main thread and all its coroutines. It owns everything, nothing
   is static. It is a userdata, and the first upvalue of every C function of runnel, which so finds it without a look-up
   (SCHED_SELF). All memory is allocated through Lua: the collector accounts for it, and closing the state frees it.

   A channel (Chan) has two queues of waiters. A waiter (Waiter) is a put or take that has not completed. It belongs to
   an alt (Alt): one decision of one owner, with a waiter in the queue of each channel that could complete it. The first
   of these channels commits the alt, which withdraws all its waiters at once. The owner is a go block (Go), or the
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
  SCHED_DELAYED,     /* table: pending timers of calls (timers/delayed.h), and */
  SCHED_CALL,        /* C function: starts the go block of such a call */
  SCHED_MAILBOX,     /* thread: the stack of an operation that waits outside any go block */
  SCHED_ON_ERROR,    /* the error handler, or nil */
  SCHED_DRIVER,      /* the driver, or nil for the built-in one */
  SCHED_CHAN_META,   /* metatable of channels */
  SCHED_BUFFER_META, /* metatable of buffer descriptions */
  SCHED_REDUCED,     /* metatable of reduced values */
  SCHED_MSGH,        /* message handler that keeps the traceback of an error */
  SCHED_TRACEBACK,   /* that traceback */
  SCHED_POOL,        /* tables, SCHED_POOLS of them: free blocks of waiters for alts (alts.c) */
  SCHED_POOL_END = SCHED_POOL + 1,
  SCHED_ATTRS,         /* weak table: go block -> its attributes as a channel; policy of a channel -> true */
  SCHED_RUN,           /* C function: the protected part of sched_run and of sched_step */
  SCHED_REPORT,        /* C function: passes an error to on_error or writes it */
  SCHED_DESCRIBE,      /* C function: describes a go block that has raised */
  SCHED_BURIED,        /* the error of a go block whose coroutine other code has closed or resumed */
  SCHED_PORTS,         /* userdata that holds port_hook, or nil without a port */
  SCHED_THREADS,       /* userdata with the threads that were started here, or nil without any (lua_thread.c) */
  SCHED_SHARING,       /* userdata that is `sharing`, or nil without a shared channel (shared_ops.c) */
  SCHED_GUARD,         /* the guard at the bottom of each go block's stack (go_close.h) */
  SCHED_CLOSER,        /* function of a coroutine that closes a dead go block's variables, and */
  SCHED_MAKE_CLOSER,   /* the function that makes that coroutine (go_close.c) */
  SCHED_CLOSE,         /* C function: closes a channel that needs memory for that (go.c) */
  SCHED_KEPT,          /* table: the list of channels and blocks that go blocks wait on (keep.h) */
  SCHED_UNHANDLED,     /* table: errors that the program has not taken yet, and */
  SCHED_ADD_UNHANDLED, /* the function that adds to it (unhandled.h) */
  SCHED_ELSEWHERE,     /* the function that appends another thread's traceback (error.h), or nil */
  SCHED_REPORTS,       /* table: the functions that write the errors of deadlocks and leaks (inspect.h), or nil */
  SCHED_ORIGINS,       /* table: the lines where the program has called the library (origin.h) */
  SCHED_SNAPSHOT,      /* table: the go blocks for a snapshot that is being filled (snapshot.c), or nil */
  SCHED_WATCH,         /* userdata that is `watch`, or nil */
  SCHED_TRACE,         /* userdata that is `tracer`, or nil */
  SCHED_END,           /* userdata whose finalizer is the last one (lua/state/open.c) */
  SCHED_NUSER = SCHED_END
};

/* The number of pools for blocks of waiters, and the number of blocks that each pool keeps. */
enum { SCHED_POOLS = 2, SCHED_POOL_BLOCKS = 64 };

/* The pending timeouts (timer.c). */
typedef struct Pending {
  Windows windows; /* finds the timeout that serves a request */
  uint32_t size;   /* slots of SCHED_TIMEOUTS, in use or free */
  uint32_t free;   /* the first free slot, which holds the number of the next one; 0: none */
} Pending;

/* The part of the scheduler's state that a simulation replaces as a whole. */
typedef struct World {
  struct World *outer; /* the world that continues when this one ends, or NULL */
  uint64_t first_id;   /* the first id of this world's go blocks */
  uint32_t living;     /* how many of these are roots, or more: some were collected, or ended in inner worlds */
  Clock clock;         /* the time */
  Heap heap;           /* timers: of sleepers, timeouts and calls */
  Pending pending;     /* the timeouts in the heap */
  uint32_t waker;      /* where in the heap timer_can_wake has last found a timer; another one may be there now */
  List ready;          /* the run queue: Alt.own.waiter.link of ready go blocks */
  uint32_t nready;     /* its length */
  const Link *turned;  /* a go block there, or not any more: it has just let the others run (lua/turn.h). Or NULL */
  const struct SimRules *rules; /* of a simulation (sim_rules.h), else NULL */
  struct Explore *explore;      /* what makes the choices of a search (sim/explore.h), or NULL */
  bool seeks_leaks;   /* its end looks for leaks: until then go blocks are kept, even if nothing can reach them */
  int64_t steps_ns;   /* what the steps of `explore` add to the time of a trace, since virtual time stands still */
  uint32_t busy;      /* steps of a simulation since time has jumped to busy_since, or has passed (sim/busy.h) */
  uint32_t busy_unit; /* of steps: BUSY_UNIT, or a part of the limit of a search's run */
  int64_t busy_since; /* when it did */
  uint32_t stride;    /* resumes between two looks at the clock; adapts to how long go blocks run */
  uint32_t left;      /* resumes until the next look */
  int64_t looked;     /* when the loop last looked at the clock, in ns */
  int64_t polled;     /* when it last polled the driver, in ns */
  uint64_t random;    /* state of the random generator, never 0 */
  uint32_t unhandled; /* errors that the program has not taken yet */
  uint32_t unhandled_first; /* the index of the first of them in SCHED_UNHANDLED */
  int64_t unhandled_due;    /* when that error is to be reported */
} World;

/* Bookkeeping of root.c and root_table.c. */
typedef struct Roots {
  uint32_t strong;      /* strong roots */
  uint32_t weak;        /* weak roots, also those that were collected and no sweep has removed yet */
  uint32_t room;        /* entries of SCHED_STRONG: at least the number of roots of both kinds */
  uint32_t limit;       /* starting a go block sweeps if this many strong roots are not in the run queue */
  uint32_t next_strong; /* the strong root that the next sweep visits first; 0: the last one */
  uint32_t next_weak;   /* the weak root that it visits first; 0: the last one */
  uint32_t due;         /* roots that the last cycle of the collector has left to the loop */
  int64_t last_cycle;   /* World.looked in that cycle */
  bool sweeping;        /* a sweep is running */
  bool is_cycle;        /* this sweep, or the last one, was started by a cycle of the collector */
  bool failed;          /* the last sweep ended early because memory ran out */
} Roots;

/* Bookkeeping of keep.c. */
typedef struct Kept {
  uint32_t size;  /* entries */
  uint32_t room;  /* the most entries that this table has had */
  uint32_t next;  /* the entry that is checked next; 0: the last one, and a new round begins */
  uint32_t found; /* entries that this round has found needed */
  uint32_t limit; /* with this many entries, adding more checks some first */
} Kept;

struct Sched {
  World world;                     /* time and the run queue */
  bool is_observed;                /* one of `seats` is not NULL */
  const struct Observer *seats[3]; /* who records events, or NULL: see observe.h */
  const struct Observer *births;   /* records new channels, or NULL */
  struct Trace *tracer;            /* the trace (trace.h), on or off; NULL if it has never been on */
  Go *current;                     /* the go block that is running, or NULL */
  uint64_t actor;                  /* its id, or that of the last one; 0: other code has run since (Chan.last) */
  Chan *on_park;                   /* an unbuffered channel, or NULL: when the running go block parks, the first waiting
                                      take on it completes with true. The code that sets this keeps the channel alive */
  Go *awaited;                     /* the go block whose end the loop waits for, or NULL */
  Alt outside;                     /* the operation that waits outside any go block; its results go to the mailbox */
  uint32_t moves;                  /* operations that did not wait since the last resume (lua/turn.h) */
  uint32_t vain;                   /* operations without an effect since the loop has run (park.h) */
  bool running;                    /* the loop runs, further down on the C stack */
  bool stop;                       /* the loop must return: what it waits for has happened */
  bool is_stuck;                   /* no other thread will end this wait: all threads wait for each other (family.h) */
  bool errors_pass;                /* printed errors do not change the exit status (--errors=warn) */
  bool gives_up;                   /* a give_up function runs, since a go block has died (go.c) */
  Kept kept;                       /* bookkeeping of SCHED_KEPT */
  int nested;                      /* the depth of nested callbacks (take_async, put_async) */
  lua_State *closing;              /* coroutine whose variables move to the closer (go_close.h), or NULL */
  lua_State *closer;               /* the closer, once it is needed; else NULL */
  lua_CFunction pcalls[2];         /* pcall and xpcall of the standard library, or NULL */
  const char *inside;              /* the kind of running user code in which waiting is impossible, or NULL */
  bool shielded;                   /* a function of the library runs that an interrupt must not end (error_call) */
  bool reporting;                  /* an error is being reported: an interrupt from before does not end that */
  uint8_t pooled[SCHED_POOLS];     /* the number of blocks in each pool */
  Roots roots;                     /* bookkeeping of SCHED_STRONG */
  struct Interruption *interruption; /* how other threads interrupt a go block (interruption.h), or NULL */
  struct Wakeup *wakeup;             /* how other threads wake the scheduler (driver.h); NULL until they need it */
  lua_Hook hook;              /* of the main thread, if it stays there: driver_check_hook has called it; or NULL */
  bool wakeup_is_watched;     /* the driver's waits end when the wakeup is signalled */
  bool input_is_watched;      /* they also end when standard input is readable: the host's prompt waits for it */
  struct PortHook *port_hook; /* messages from other threads (others.h), or NULL without a port */
  struct runnel_task *tasks;  /* tasks that C modules want done before the next wait (capi/runnel.h), or NULL */
  void (*run_tasks)(struct Sched *S); /* does them and empties the list; must not raise */
  struct Sharing *sharing;            /* the state of shared channels (shared_wait.h), or NULL without one */
  const struct Others *others;        /* functions for waits on shared channels (others.h), or NULL without one */
  void (*note_weak)(lua_State *L, Go *go, bool is_weak); /* counts weak roots (errors/leaks.h) */
  void (*call)(lua_State *L, Timer *timer); /* makes a call that is due (timers/delayed.h). Does not raise */
  const struct WatchHook *watch_hook;       /* functions that the loop calls for `watch` (observe.h), or NULL */
  struct Watch *watch;                      /* what looks at the scheduler, or measures it (watch.h), or NULL */
  uint64_t next_id;                         /* the id of the next channel or go block */
  int64_t grace;                            /* how long the program has to take an error, in ns */
  const char *deadlocked;     /* Operation.name of what a deadlock has ended last outside any go block, or NULL */
  uint64_t reported, printed; /* errors that were reported; of these, those written to stderr without a handler */
};

/* The scheduler of the running C function. */
static inline Sched *sched_self(lua_State *L) { return (Sched *)lua_touserdata(L, SCHED_SELF); }

/* The id of the go block that owns an alt; 0: the alt is `outside`. */
static inline uint64_t sched_owner_id(const Sched *S, const Alt *alt) {
  return LIKELY(alt != &S->outside) ? CONTAINER_OF(alt, const Go, alt)->chan.id : 0;
}

/* Whether a go block belongs to the running simulation, if there is one. Go blocks of outer worlds may be parked. */
static inline bool sched_is_of_world(const Sched *S, const Go *go) { return go->chan.id >= S->world.first_id; }

#endif
