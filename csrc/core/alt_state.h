/* alt_state.h: the state of an operation that waits: an alt, and a waiter in each queue in which it waits. */
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
  WAITER_UNCOUNTED = 1, /* an operation of the library: does not count against the limit of pending operations */
  WAITER_GIVES_UP = 2,  /* a put that completes with false when its channel closes */
  WAITER_KEPT = 4       /* the go block keeps the channel alive, even while other code closes its coroutine */
} WaiterFlag;

/* A pending put or take in a queue of a channel. */
typedef struct Waiter {
  Link link;     /* in the queue; in no list once it is withdrawn */
  Chan *chan;    /* the channel of the queue */
  Alt *alt;      /* the alt that owns it */
  int at;        /* index of the channel on alt->co; the value of a put is at the next one */
  bool is_put;   /* a put, else a take */
  bool is_kept;  /* in the first waiter of a block: the block is in the scheduler's list (keep.h) */
  bool is_weak;  /* in the first waiter of a block: its go block is a weak root and may be collected (ALT_WEAK) */
  uint8_t flags; /* of WaiterFlag */
} Waiter;

typedef enum AltState {
  ALT_IDLE,     /* its owner runs: nothing is pending */
  ALT_PARKED,   /* its waiters are in queues */
  ALT_SLEEPING, /* its timer is pending */
  ALT_READY,    /* committed: in the run queue, with its results on its stack */
  ALT_DEAD,     /* the owner has ended */
  ALT_NEW       /* made, but not enqueued or ready yet; it stays new if an error comes in between */
} AltState;

typedef enum AltFlag {
  ALT_SELECT = 1,   /* an alts: its results are value, port */
  ALT_WEAK = 2,     /* its go block is a weak root: only its channels keep it alive (root.h) */
  ALT_CALLBACK = 4, /* its go block runs a callback (take_async, put_async) and must not park */
  ALT_RAISE = 8,    /* resumes by raising its only result */
  ALT_INDEX = 16,   /* an alts that returns the number of the operation, not its port */
  ALT_BARE = 32,    /* co is not suspended in an operation: a mailbox, or a coroutine that has not started */
  ALT_CANCEL = 64,  /* its go block was cancelled: its next wait raises. While it waits, CHAN_TOLD is set, too */
  ALT_LOOP = 128    /* the take of a for loop, which drops the error with which the channel was closed */
} AltFlag;

/* The values of the operations, and later the results, are on the stack of the coroutine `co`: the owner's coroutine,
   or the mailbox for the operation outside any go block. */
struct Alt {
  union {
    Waiter waiter; /* of a single operation; its link is in the run queue when the alt is ready */
    Timer timer;   /* of a sleep */
    struct {
      Link link;       /* in the run queue when the alt is ready; at the address of waiter.link */
      Waiter *waiters; /* of an alts (ALT_SELECT) */
    } alts;
  } own;
  int64_t since;             /* when it parked: the time of the loop's last look at the clock */
  lua_State *co;             /* has the values and results; NULL once dead */
  struct SharedWait *shared; /* its operations on shared channels while it waits on any (shared_wait.h); or gather.h */
  uint32_t count;            /* enqueued waiters; 0 unless it is parked, and 0 once it is committed */
  uint16_t nresults; /* when ready, the results on top of co; at first, its arguments; weak: see errors/leaks.c */
  uint8_t state;     /* an AltState */
  uint8_t flags;     /* of AltFlag */
};

/* The waiters of a parked alt. */
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

/* The stack of an alts: its block of waiters; then, from ALT_FIRST_OP on, each channel and the value of its put. */
enum { ALT_BLOCK = 3, ALT_FIRST_OP };

/* An operation as the program calls it: a constant of the C function that does it. */
typedef struct Operation {
  const char *name; /* its name in messages */
  bool is_put;      /* for a single operation: a put, else a take */
  bool is_quiet;    /* on a shared channel: driver_alive does not wait for it */
  bool cleans_up;   /* a cancelled go block that has got the error may still wait in it */
  uint8_t waiter;   /* of WaiterFlag, for its waiters; WAITER_GIVES_UP only for a single operation */
  uint8_t flags;    /* of AltFlag, for the alt while it waits */
} Operation;

/* Whether an alt's operations are still on its stack: not while other code closes its coroutine (coroutine.close).
   Before Lua 5.4.4 the status does not show that, but a coroutine that is being closed cannot yield. */
static inline bool alt_is_active(const Alt *alt) {
  bool waits = LIKELY(lua_status(alt->co) == LUA_YIELD) && (!BEFORE_LUA_5_4_4 || lua_isyieldable(alt->co));
  return waits || alt->flags & ALT_BARE;
}

#endif
