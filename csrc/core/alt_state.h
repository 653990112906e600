/* alt_state.h: what an operation that waits owns: its alt, and a waiter in each queue where it waits. */
#ifndef RUNNEL_ALT_STATE_H
#define RUNNEL_ALT_STATE_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compat.h"
#include "base/heap.h"
#include "base/list.h"

typedef struct Alt Alt;
typedef struct Chan Chan;
typedef struct Sched Sched;

typedef enum WaiterFlag {
  WAITER_UNCOUNTED = 1, /* of the library's own: does not count against the limit of pending operations */
  WAITER_GIVES_UP = 2,  /* a put that completes with false when its channel closes */
  WAITER_KEPT = 4       /* its go block keeps the channel alive, also while somebody closes its coroutine */
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
  ALT_CANCEL = 64,  /* of a go block that was cancelled: its next wait raises the error. While it is parked or asleep
                       only together with CHAN_TOLD */
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
  uint32_t count;            /* waiters that are in queues: none unless it is parked, and none once it is committed */
  uint16_t nresults;         /* results (or a first resume's arguments) on top of co's stack, when ready */
  uint8_t state;             /* an AltState */
  uint8_t flags;             /* of AltFlag */
};

/* The waiters of an alt that is parked. */
static inline Waiter *alt_waiters(const Alt *alt) {
  return LIKELY(!(alt->flags & ALT_SELECT)) ? (Waiter *)&alt->own.waiter : alt->own.alts.waiters;
}

/* Pushes the channel of a waiter, from its owner's stack. */
static inline void alt_push_channel(lua_State *L, const Waiter *w) {
  lua_pushvalue(w->alt->co, w->at);
  lua_xmove(w->alt->co, L, 1);
}

/* Pushes the value of a waiting put, from its owner's stack. */
static inline void alt_push_value(lua_State *L, const Waiter *w) {
  lua_pushvalue(w->alt->co, w->at + 1);
  lua_xmove(w->alt->co, L, 1);
}

/* The stack of an alts: its block of waiters, and from ALT_FIRST_OP on two slots for each operation, the channel and
   the value of a put. */
enum { ALT_BLOCK = 3, ALT_FIRST_OP };

/* An operation as the program calls it; a constant of the C function that does it. */
typedef struct Operation {
  const char *name; /* its name in messages */
  bool is_put;      /* a put, else a take, if it is on a single channel */
  bool is_quiet;    /* on a shared channel: does not count as something that may still happen (driver_alive) */
  bool cleans_up;   /* a go block that was cancelled, and has got the error, may wait in it */
  uint8_t waiter;   /* of WaiterFlag, for its waiters; WAITER_GIVES_UP only on a single channel */
  uint8_t flags;    /* of AltFlag, for the alt while it waits */
} Operation;

/* Whether an alt's operations are still on its stack: not while somebody closes its coroutine (coroutine.close). Before
   Lua 5.4.4 the status does not show that, but a coroutine that is being closed cannot yield. */
static inline bool alt_is_active(const Alt *alt) {
  bool waits = LIKELY(lua_status(alt->co) == LUA_YIELD) && (!BEFORE_LUA_5_4_4 || lua_isyieldable(alt->co));
  return waits || alt->flags & ALT_BARE;
}

#endif
