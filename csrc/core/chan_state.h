/* chan_state.h: what a channel owns: its queues, its buffer, and its user values. */
#ifndef RUNNEL_CHAN_STATE_H
#define RUNNEL_CHAN_STATE_H

#include <stddef.h>

#include "base/buffer.h"
#include "core/alt_state.h"

/* User values of a channel. CHAN_ATTRS, the only one of a channel without a buffer, holds the table of attributes
   (attr.h), or without one the error with which it was closed. CHAN_VALUES holds the table that is the ring of a large
   buffer, or the policy object of BUFFER_POLICY. CHAN_STEP and CHAN_HANDLER, of channels with a transducer only, hold
   its step function and exception handler. A buffer of up to CHAN_INLINE values has its slots from CHAN_VALUES on, or
   behind CHAN_HANDLER: a message then needs no table. */
enum { CHAN_ATTRS = 1, CHAN_VALUES, CHAN_STEP, CHAN_HANDLER };

/* Values of the largest buffer whose slots are user values. */
enum { CHAN_INLINE = 128 };

typedef enum ChanFlag {
  CHAN_CLOSED = 1 << 0,      /* accepts no more puts */
  CHAN_REASON = 1 << 1,      /* closed with an error (attr.c) */
  CHAN_HAS_ATTRS = 1 << 2,   /* it has a table of attributes */
  CHAN_SPECIAL = 1 << 3,     /* it has functions of its own (chan_ops.h) */
  CHAN_ERROR_TAKEN = 1 << 4, /* somebody has taken the error with which it was closed (unhandled.h) */
  CHAN_ERROR_KNOWN = 1 << 5, /* that error needs no further report */
  CHAN_KEPT = 1 << 6,        /* the scheduler keeps it alive while somebody waits on it (keep.h) */
  CHAN_LISTED = 1 << 7,      /* it is in the scheduler's list of what go blocks wait on (keep.h) */

  /* ---- of channels that close by themselves ---- */
  CHAN_CLOSES_ITSELF = 1 << 8, /* what done() returns, or a timeout: no program closes it, and it is its own done() */
  CHAN_TIMEOUT = 1 << 9,       /* a pending timeout: the timer will close it */
  CHAN_DONE_SHARED = 1 << 10,  /* what done() returns of a shared channel, whose handle is in CHAN_VALUES */
  CHAN_DONE_PORT = 1 << 16,    /* what done() returns of a channel to which there are ports, or were */

  /* ---- of the result channels of go blocks (go_state.h) ---- */
  CHAN_GO = 1 << 11,     /* of a go block, live or not */
  CHAN_RESULT = 1 << 12, /* of a live one: without a buffer yet */
  CHAN_FEEDS = 1 << 13,  /* of one with GO_GIVE_UP and GO_FED */
  CHAN_DYING = 1 << 14,  /* it has died, and its variables are being closed (go_close.h) */
  CHAN_KILLED = 1 << 15, /* it dies at its next turn: somebody else has resumed its coroutine */
  CHAN_TOLD = 1 << 16    /* it has got the error of the last cancel (park.c) */
} ChanFlag;

/* The queues of a channel; Waiter.is_put says in which one a waiter is. */
enum { TAKES, PUTS };

struct Chan {
  const void *tag;           /* &chan_tag: a faster test for a channel than comparing metatables */
  Sched *sched;              /* the scheduler that it belongs to */
  List queues[2];            /* waiting takes, and waiting puts (TAKES, PUTS), first come first served */
  uint64_t id;               /* unique in the scheduler; a go block has that of its result channel */
  uint64_t put_total;        /* puts accepted so far */
  uint32_t waiting[2];       /* how many takes wait, and how many puts */
  uint32_t flags;            /* of ChanFlag */
  Buffer buf;                /* the buffer's state. Without a buffer the channel's memory ends before its limit */
  uint64_t take_total;       /* values taken so far; without a buffer that is put_total */
  const struct ChanOps *ops; /* with CHAN_SPECIAL: how it does what it does in a way of its own (chan_ops.h) */
};

/* The size of a channel without a buffer. */
#define CHAN_UNBUFFERED_SIZE offsetof(Chan, buf.limit)

/* Its address is the tag of channels, and the scheduler's key in the registry. */
extern const char chan_tag;

/* The label (base/buffer.h) of a hidden channel: one that only the library uses, so that nothing tells of it; and of
   the result channel of a hidden go block. */
enum { CHAN_HIDDEN = 0xFFFF };

static inline bool chan_is_hidden(const Chan *ch) { return ch->buf.label == CHAN_HIDDEN; }

/* Hides a channel or a go block: from now on it is not recorded, and what it makes is hidden, too. */
static inline void chan_hide(Chan *ch) { ch->buf.label = CHAN_HIDDEN; }

/* The channel at index `i` of L, or NULL for anything else. */
static inline Chan *chan_to(lua_State *L, int i) {
  Chan *ch = (Chan *)lua_touserdata(L, i);
  /* A light userdata has no length; a foreign one may be shorter than the tag. */
  if (UNLIKELY(!ch || lua_rawlen(L, i) < CHAN_UNBUFFERED_SIZE || ch->tag != &chan_tag)) return NULL;
  return ch;
}

#endif
