/* chan_state.h: the state of a channel: its queues, its buffer, and its user values. */
#ifndef RUNNEL_CHAN_STATE_H
#define RUNNEL_CHAN_STATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "core/alt_state.h"

/* User values of a channel. CHAN_ATTRS is the only one without a buffer: it holds the table of attributes (attr.h) or,
   without a table, the error with which the channel was closed. CHAN_VALUES holds the table that is the ring of a large
   buffer, or the policy object of BUFFER_POLICY. CHAN_STEP and CHAN_HANDLER hold a transducer's step function and
   exception handler. The slots of a buffer of up to CHAN_INLINE values are user values, from CHAN_VALUES on or, with a
   transducer, behind CHAN_HANDLER: such a message needs no table. */
enum { CHAN_ATTRS = 1, CHAN_VALUES, CHAN_STEP, CHAN_HANDLER };

/* The size of the largest buffer whose slots are user values. */
enum { CHAN_INLINE = 128 };

typedef enum ChanFlag {
  CHAN_CLOSED = 1 << 0,
  CHAN_REASON = 1 << 1,      /* closed with an error (attr.h) */
  CHAN_HAS_ATTRS = 1 << 2,   /* it has a table of attributes */
  CHAN_SPECIAL = 1 << 3,     /* it has its own functions (chan_ops.h) */
  CHAN_ERROR_TAKEN = 1 << 4, /* the program has taken the error with which it was closed (unhandled.h) */
  CHAN_ERROR_KNOWN = 1 << 5, /* that error needs no further report */
  CHAN_KEPT = 1 << 6,        /* the scheduler keeps it alive while go blocks wait on it (keep.h) */
  CHAN_LISTED = 1 << 7,      /* it is in the scheduler's list of kept channels (keep.h) */
  CHAN_UNBUFFERED = 1 << 19, /* the program has made it without a buffer */
  CHAN_ENDLESS = 1 << 18,    /* one go block can use it for ever without waiting (lua/turn.h): it has a buffer, but not
                                one with CHAN_INLINE fixed slots */

  /* ---- channels that close themselves ---- */
  CHAN_CLOSES_ITSELF = 1 << 8, /* a done() channel, or a timeout: no program closes it, and it is its own done() */
  CHAN_TIMEOUT = 1 << 9,       /* a pending timeout: the timer will close it */
  CHAN_DONE_SHARED = 1 << 10,  /* the done() channel of a shared channel, whose handle is in CHAN_VALUES */
  CHAN_DONE_PORT = 1 << 16,    /* the done() channel of a channel to which there are, or were, ports */

  /* ---- result channels of go blocks (go_state.h) ---- */
  CHAN_GO = 1 << 11,     /* the result channel of a go block, live or not */
  CHAN_RESULT = 1 << 12, /* its go block lives: it has no buffer yet */
  CHAN_FEEDS = 1 << 13,  /* its go block has GO_GIVE_UP and GO_FED */
  CHAN_DYING = 1 << 14,  /* its go block has died, and closes its variables (go_close.h) */
  CHAN_KILLED = 1 << 15, /* other code has resumed its coroutine, so it dies when the loop resumes it */
  CHAN_TOLD = 1 << 17    /* its go block has got the error of the last cancel (park.c) */
} ChanFlag;

/* The queues of a channel; Waiter.is_put says in which one a waiter is. */
enum { TAKES, PUTS };

struct Chan {
  const void *tag;     /* &chan_tag: comparing it is faster than comparing metatables */
  Sched *sched;        /* its scheduler */
  List queues[2];      /* waiting takes and waiting puts (TAKES, PUTS), first in, first out */
  uint64_t id;         /* unique in the scheduler; a go block has the id of its result channel */
  uint64_t put_total;  /* puts accepted so far */
  uint32_t waiting[2]; /* the lengths of `queues` */
  uint32_t flags;      /* of ChanFlag */
  Buffer buf;          /* the buffer. An unbuffered channel's memory ends before buf.limit */
  uint64_t take_total; /* values taken so far; an unbuffered channel uses put_total */
  union {
    const struct ChanOps *ops; /* with CHAN_SPECIAL: its own functions (chan_ops.h) */
    uint64_t last; /* else the id of the go block that has put or taken last; 0: nobody, or code outside of go blocks */
  };
};

/* The size of a channel without a buffer. */
#define CHAN_UNBUFFERED_SIZE offsetof(Chan, buf.limit)

/* Its address is the tag of channels, and the scheduler's key in the registry. */
extern const char chan_tag;

/* The label (base/buffer.h) of a hidden channel or go block: only the library uses it, and nothing records it. */
enum { CHAN_HIDDEN = 0xFFFF };

static inline bool chan_is_hidden(const Chan *ch) { return ch->buf.label == CHAN_HIDDEN; }

/* Hides a channel or a go block: it is not recorded from now on, and what it makes is hidden, too. */
static inline void chan_hide(Chan *ch) { ch->buf.label = CHAN_HIDDEN; }

/* The channel at index `i` of L, or NULL if another value is there. */
static inline Chan *chan_to(lua_State *L, int i) {
  Chan *ch = (Chan *)lua_touserdata(L, i);
  /* A light userdata has length 0; a foreign userdata may be shorter than the tag. */
  if (UNLIKELY(!ch || lua_rawlen(L, i) < CHAN_UNBUFFERED_SIZE || ch->tag != &chan_tag)) return NULL;
  return ch;
}

#endif
