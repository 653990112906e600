/* go_state.h: what a go block owns: its result channel, what it waits for, and its user values. */
#ifndef RUNNEL_GO_STATE_H
#define RUNNEL_GO_STATE_H

#include "core/chan_state.h"

/* User values of a go block. Its attributes as a channel are in SCHED_ATTRS. The first user value holds
     its coroutine, while it is a strong root (root.h);
     what it waits on, while it is a weak root;
     its result, or its error, once it has ended.
   GO_GIVE_UP and GO_FED, of one that feeds a channel only (go_spawn_feeding), hold the function to call if it dies, and
   that function's first argument. */
enum { GO_COROUTINE = CHAN_ATTRS, GO_WAITS = CHAN_ATTRS, GO_RESULT = CHAN_ATTRS, GO_GIVE_UP, GO_FED };

/* A go block; its userdata is also its result channel. While it lives, the channel has no buffer, and `alt` takes the
   memory of the buffer's fields. When it ends, it waits for nothing any more, and the channel gets its buffer
   (go.c). */
typedef struct Go {
  union {
    Chan chan; /* the result channel; its id is the go block's too */
    struct {
      char begin[CHAN_UNBUFFERED_SIZE]; /* of the channel */
      Alt alt;                          /* what it waits for; alt.co is its coroutine */
    };
  };
  uint32_t origin; /* the line of the program that called the library, which started it; or 0 (origin.h) */
  uint32_t slot;   /* its index in the table of strong roots, or of weak ones (root_table.c); 0 once it has ended */
} Go;

/* The go block whose result channel this is, or NULL. */
static inline Go *chan_to_go(Chan *ch) { return ch->flags & CHAN_GO ? CONTAINER_OF(ch, Go, chan) : NULL; }

/* The go block of an alt other than the outside one. */
static inline Go *sched_go(Alt *alt) { return CONTAINER_OF(alt, Go, alt); }

#endif
