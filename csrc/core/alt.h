/* alt.h: the alt flag and its waiters (core.async's handlers).

   An alt is one decision of one owner: a single put or take, or an alts over many. It has a waiter in the queue of every
   channel that could complete it. The first that does commits the alt, once and for ever, and the commit withdraws all
   its waiters at once: a waiter that is in a queue is active. (core.async leaves the dead ones to be purged lazily.) Committing is chan_withdraw and then
   waking the owner: sched_commit.

   The values of the operations, and later the results, lie on the stack of a coroutine, `co`: the owner's own, or the
   mailbox of one that waits outside any go block. An alt knows no more of its owner than that. */
#ifndef RUNNEL_ALT_H
#define RUNNEL_ALT_H

#include "base/heap.h"
#include "base/hint.h"
#include "base/list.h"

struct Chan;
struct lua_State;
typedef struct Alt Alt;

/* An operation that has not completed, in one queue of one channel. */
typedef struct Waiter {
  Link link;         /* in the queue; not joined when withdrawn */
  struct Chan *chan; /* the channel */
  Alt *alt;          /* the decision that it belongs to */
  int at;            /* index in alt->co of the channel; the value of a put is at the next one */
  bool is_put;       /* in the queue of puts, or of takes */
  bool is_kept;      /* of the first one of a block: it is in the scheduler's list (keep.h) */
  bool is_away;      /* of the first one of a block: the go block was handed over with it, and may be gone (ALT_AWAY) */
  bool is_free;      /* an operation of the library's own: does not count against the limit of waiting operations */
} Waiter;

typedef enum AltState {
  ALT_IDLE,     /* running: nothing pending */
  ALT_PARKED,   /* waits on channels */
  ALT_SLEEPING, /* waits on its timer */
  ALT_READY,    /* committed: in the run queue, its results on its stack */
  ALT_DEAD,     /* the owner has ended */
  ALT_NEW       /* made, but not yet queued or ready; it stays so where an error comes between */
} AltState;

typedef enum AltFlag {
  ALT_SELECT = 1,   /* an alts: its results are value, port */
  ALT_AWAY = 2,     /* of a go block that its channels keep alive, not the scheduler (anchor.h) */
  ALT_CALLBACK = 4, /* of a callback (take_async, put_async), which must not park */
  ALT_RAISE = 8,    /* resumes by raising its one result */
  ALT_INDEX = 16,   /* an alts that wants the number of the operation instead of its port */
  ALT_BARE = 32,    /* co is not suspended in an operation: a mailbox, or a coroutine that has not started */
  ALT_CANCEL = 64,  /* of a go block that was cancelled and has not got the error: never while it is parked or asleep */
  ALT_LOOP = 128    /* a for loop's take: it drops the error with which the channel is closed */
} AltFlag;

struct Alt {
  union {
    Waiter waiter; /* for a single operation; when ready its link is in the run queue */
    Timer timer;   /* for a sleep */
  } own;
  Waiter *waiters;      /* the waiters: &own.waiter, or those of an alts */
  int64_t since;        /* when it began to wait, as of the loop's last look at the clock */
  struct lua_State *co; /* where values and results lie; NULL once dead */
  uint32_t count;       /* waiters that are in queues */
  uint16_t nresults;    /* results (or a first resume's arguments) on top of co's stack, when ready */
  uint8_t state;        /* an AltState */
  uint8_t flags;        /* of AltFlag */
};

#endif
