/* sched.h: the scheduler: the run queue, timers, the loop, waiting, and waking.

   One scheduler belongs to one lua_State (its main thread and all its coroutines); everything hangs from it and nothing is
   static. It is a userdata and the first upvalue of every C function of runnel, so that each of them finds it without a
   look-up: SCHED_SELF. What must be kept for the garbage collector lies in its user values.

   It allocates through Lua only, so that the collector accounts for all of it and closing the state frees all of it. */
#ifndef RUNNEL_SCHED_H
#define RUNNEL_SCHED_H

#include <lua.h>

#include "base/clock.h"
#include "core/chan.h"

/* The scheduler's userdata in any C function of runnel. */
#define SCHED_SELF lua_upvalueindex(1)

/* User values of the scheduler. */
enum {
  SCHED_ANCHORS = 1, /* table: slot -> what holds a go block (anchor.h) */
  SCHED_AWAY,        /* weak table: slot -> go block that its channels keep alive */
  SCHED_VISIT,       /* visits slots, and the next makes the sentinel: C functions of anchor.c */
  SCHED_WATCH,
  SCHED_HEAP,        /* userdata: the entries of the timer heap */
  SCHED_TIMEOUTS,    /* table: pending timeouts by deadline (timeout.h) */
  SCHED_MAILBOX,     /* thread: the stack of an operation that waits outside any go block */
  SCHED_ON_ERROR,    /* the error handler, or nil */
  SCHED_DRIVER,      /* the driver, or nil for the built-in one */
  SCHED_CHAN_META,   /* metatable of channels */
  SCHED_BUFFER_META, /* metatable of buffer descriptions */
  SCHED_REDUCED,     /* metatable of reduced values */
  SCHED_MSGH,        /* message handler that keeps the traceback of an error */
  SCHED_TRACEBACK,   /* that traceback */
  SCHED_POOL,        /* tables, SCHED_POOLS of them: blocks of waiters for alts, to use again */
  SCHED_POOL_END = SCHED_POOL + 1,
  SCHED_EXTRAS,      /* weak table: go block -> its extras as a channel */
  SCHED_DRIVE,       /* the protected part of the loop, a C function; the next two are of error.c */
  SCHED_TELL,        /* tells of an error */
  SCHED_DESCRIBE,    /* describes a go block that has raised */
  SCHED_BURIED,      /* the error of a go block whose coroutine was closed or resumed by somebody else */
  SCHED_PORTS,       /* userdata that holds port_hook, or nil without a port */
  SCHED_GUARD,       /* the bottom of the stack of a go block's coroutine; this and the next two: closing.c */
  SCHED_CLOSER,      /* the function of a coroutine that closes the variables of a go block that has died */
  SCHED_MAKE_CLOSER, /* makes that coroutine */
  SCHED_KEPT,        /* table: the list of what go blocks wait on (keep.h) */
  SCHED_UNHANDLED,     /* table: errors that nobody has taken yet (unhandled.h); the next is the function that adds to it */
  SCHED_KEEP_UNHANDLED,
  SCHED_DESCRIBE_WAITING, /* describes what an operation waits for (inspect.c) */
  SCHED_ORIGINS,     /* table: where the program has called the library (origin.h) */
  SCHED_NUSER = SCHED_ORIGINS
};

/* Sizes of blocks of waiters for which there is a pool, and blocks that each keeps. */
enum { SCHED_POOLS = 2, SCHED_POOL_BLOCKS = 64 };

/* A go block; its userdata is also its result channel. Its own CHAN_VALUES holds its coroutine while it lives. */
typedef struct Go {
  Chan chan; /* the result channel; its id is the go block's too */
  Alt alt;   /* what it waits for; alt.co is its coroutine */
  uint32_t origin; /* the line of the program that called the library, which started it; or 0 (origin.h) */
} Go;

/* What a simulation replaces as a whole. */
typedef struct World {
  struct World *outer; /* the one that waits until this one is over, or NULL */
  uint64_t first_id;   /* ids of go blocks that belong to this world, from here on */
  Clock clock;       /* the time */
  Heap heap;         /* sleepers and timeouts */
  List ready;        /* the run queue: Alt.own.waiter.link of ready go blocks */
  uint32_t nready;   /* its length */
  bool shuffle;      /* run ready go blocks in random order */
  uint32_t stride;   /* resumes between two looks at the clock: adapted to how long go blocks run */
  uint32_t left;     /* of them, until the next look */
  uint32_t moves;    /* values that the library's go blocks have moved since one of them last waited (lua/moving.c) */
  int64_t looked;    /* when the loop last looked at the clock, in ns */
  int64_t polled;    /* when it last polled the driver, in ns */
  uint64_t random;   /* state of the random numbers: never 0 */
  uint32_t unhandled;       /* errors that nobody has taken yet */
  uint32_t unhandled_first; /* number of the first of them in SCHED_UNHANDLED */
  int64_t unhandled_due;    /* when that is to be reported */
} World;

typedef struct Anchors {
  uint32_t size;  /* slots in use or free */
  uint32_t free;  /* first of the free ones that are linked, each naming the next; 0: none */
  uint32_t held;  /* go blocks that the scheduler keeps alive */
  uint32_t limit; /* visit slots when so many of them are not in the run queue */
  uint32_t next;  /* the slot to visit next; 0: a new lap */
  uint8_t lap;    /* parity of the number of laps */
  bool visiting;  /* slots are being visited */
  bool failed;    /* the last visits ended early because memory ran out */
} Anchors;

typedef struct Kept {
  uint32_t size;  /* entries */
  uint32_t next;  /* the entry to look at next; 0: a new lap */
  uint32_t limit; /* entries from which on the list is trimmed as it grows */
} Kept;

/* The origin that was looked up last (origin.c). */
typedef struct LastOrigin {
  const char *what;          /* what the program has called; only compared */
  int line;                  /* where */
  char source[LUA_IDSIZE];   /* in which file */
  uint32_t number;           /* the origin */
} LastOrigin;

typedef struct Sched {
  World world;        /* time and the run queue */
  Go *current;        /* the go block that is running, or NULL */
  Go *root;           /* the go block whose end the loop waits for, or NULL */
  Alt outside;        /* the operation that waits outside any go block; its results go to the mailbox */
  bool running;       /* the loop is running, further down on the C stack */
  bool stop;          /* what the loop waits for has come */
  Kept kept;          /* bookkeeping of SCHED_KEPT */
  lua_State *closer;  /* the coroutine to which variables are moved while that of a go block is closed, or NULL */
  const char *inside; /* what code of the user's is being called where waiting is impossible, or NULL */
  uint8_t pooled[SCHED_POOLS]; /* blocks of waiters in each pool */
  const void *checked; /* the last list of operations that an alts has looked through (lua/alts.c); only compared */
  Anchors anchors;    /* bookkeeping of SCHED_ANCHORS */
  struct PortHook *port_hook; /* messages from other threads (driver.h), or NULL without a port */
  uint64_t next_id;   /* for the next channel or go block */
  int64_t grace;      /* how long an error may wait to be taken, in ns */
  uint64_t printed;   /* errors that were written to stderr, since there was no handler */
  LastOrigin last_origin; /* see there */
  bool errors_pass;   /* errors that were printed do not change the exit status (rn.exit) */
} Sched;

/* The go block of an alt that is not the outside one. */
static inline Go *sched_go(Alt *alt) { return CONTAINER_OF(alt, Go, alt); }

/* The scheduler of the C function that is running. */
static inline Sched *sched_self(lua_State *L) { return (Sched *)lua_touserdata(L, SCHED_SELF); }

/* A random number below n (n > 0), of the world's generator. */
uint32_t sched_random(Sched *S, uint32_t n);

/* Makes a world's random numbers come from the seed; those of seeds that differ by one do not look alike. */
void sched_seed(World *w, uint64_t seed);

/* Makes the scheduler hold a go block again that its channels kept alive. */
void sched_bring_back(lua_State *L, Sched *S, Alt *alt);

/* The alt with which the caller can wait: that of the running go block, or the outside one with L's arguments copied to
   its mailbox. Raises, naming `what`, where waiting is impossible; and in a go block that was cancelled, why. */
Alt *sched_waiter_elsewhere(lua_State *L, Sched *S, const char *what);

static inline Alt *sched_waiter(lua_State *L, Sched *S, const char *what) {
  Go *go = S->current;
  if (LIKELY(go && go->alt.co == L && !S->inside && !(go->alt.flags & (ALT_CALLBACK | ALT_CANCEL)) && lua_isyieldable(L))) {
    return &go->alt;
  }
  return sched_waiter_elsewhere(L, S, what);
}

/* Waits until the alt, which has been queued or put to sleep, is committed. Returns the number of results, which are on
   top of L; in a go block by way of lua_yieldk, so that it must be the last thing that a C function does. `k` is called
   in the go block when it resumes, before the results are returned; NULL for nothing. */
int sched_wait(lua_State *L, Sched *S, Alt *alt, const char *what, lua_KFunction k);

/* For `k`: checks that it was the scheduler who resumed, raises what it is to raise, and returns the number of results.
   One that resumes with nothing, and was cancelled, raises why: what an operation has brought is never lost by that. */
int sched_resumed(lua_State *L, Alt *alt);

/* Commits an alt: nobody else can complete it any more. It must be woken next. */
static inline void sched_claim(lua_State *L, Sched *S, Alt *alt) {
  if (UNLIKELY(alt->flags & ALT_AWAY)) sched_bring_back(L, S, alt);
  chan_withdraw(alt);
}

/* Puts an owner at the end of the run queue. */
static inline void sched_ready(Sched *S, Alt *alt) {
  alt->state = ALT_READY;
  list_append(&S->world.ready, &alt->own.waiter.link);
  S->world.nready++;
}

/* Wakes the owner of a committed alt, whose `nresults` results are on its stack. */
static inline void sched_wake(Sched *S, Alt *alt, int nresults) {
  alt->nresults = (uint16_t)nresults;
  if (LIKELY(alt != &S->outside)) {
    sched_ready(S, alt);
  } else {
    alt->state = ALT_READY;
    S->stop = true;
  }
}

/* Commits an alt whose results are on its stack and wakes its owner. */
static inline void sched_commit(lua_State *L, Sched *S, Alt *alt, int nresults) {
  sched_claim(L, S, alt);
  sched_wake(S, alt, nresults);
}

/* Takes an alt out of wherever it waits: queues, timers or run queue. */
void sched_withdraw(Sched *S, Alt *alt);

/* Makes room for one more timer. May raise. */
void sched_reserve_timer(lua_State *L, Sched *S);

/* Puts `alt` to sleep until `deadline` (there must be room for the timer). */
void sched_sleep(Sched *S, Alt *alt, int64_t deadline);

/* Runs until `root` has ended, or with NULL until nothing is ready, timed or alive. Returns false when that came before
   root had ended. The results of root are then on top of its coroutine, which the caller must hold; or its error is on the
   mailbox, and root has ALT_RAISE. */
bool sched_run(lua_State *L, Sched *S, Go *root);

/* Fires due timers, polls the driver and runs ready go blocks: at most `max` of them, and none any more once `ns` have
   passed. Meanwhile timers and the driver get their turn as they do in sched_run. Returns what sched_next would then. */
int64_t sched_step(lua_State *L, Sched *S, lua_Integer max, int64_t ns);

/* ns to the next deadline, 0 when something is ready, -1 when idle, INT64_MAX when only the driver has something alive. May
   raise what the driver raises. */
int64_t sched_next(lua_State *L, Sched *S);

/* Raises when the caller is in a go block, or in code that the loop or a channel called. */
void sched_check_outside(lua_State *L, Sched *S, const char *what);

/* Ends this world and returns to the outer one. What is still ready or asleep is dropped, since nobody will run it; but go
   blocks of the outer world that were woken here go on there. */
void sched_end_world(lua_State *L, Sched *S);

/* Sets up the scheduler's user values; its userdata is at SCHED_SELF. */
void sched_open(lua_State *L, uint64_t seed);

#endif
