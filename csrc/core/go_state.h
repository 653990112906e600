/* go_state.h: the state of a go block: its result channel, its alt, and its user values. */
#ifndef RUNNEL_GO_STATE_H
#define RUNNEL_GO_STATE_H

#include "core/chan_state.h"

/* User values of a go block. Its attributes as a channel are in SCHED_ATTRS. The first user value holds its coroutine
   while it is a strong root (root.h), the channels on which it waits while it is a weak root, and its result or error
   after it has ended. If it feeds a channel (go_spawn_feeding), GO_GIVE_UP is the function that is called if it dies,
   and GO_FED the first argument of that function. */
enum { GO_COROUTINE = CHAN_ATTRS, GO_WAITS = CHAN_ATTRS, GO_RESULT = CHAN_ATTRS, GO_GIVE_UP, GO_FED };

/* A go block; its userdata is also its result channel. While it lives, the channel has no buffer, and `alt` uses that
   memory. When it ends, it waits for nothing any more, and the channel gets its buffer (go.c). */
typedef struct Go {
  union {
    Chan chan; /* the result channel; its id is also the id of the go block */
    struct {
      char begin[CHAN_UNBUFFERED_SIZE]; /* of the channel */
      Alt alt;                          /* its current operation; alt.co is its coroutine */
    };
  };
  uint32_t origin : 20; /* the line of the program that called the library, which started it; or 0 (origin.h) */
  uint32_t host : 12;   /* its host in a simulated world, inherited; or 0 (sim/sim.h: sim_crash) */
  uint32_t slot;        /* its index in the table of strong, or weak, roots (root_table.c); 0 after it has ended */
} Go;

/* The go block that has this result channel, or NULL. */
static inline Go *chan_to_go(Chan *ch) { return ch->flags & CHAN_GO ? CONTAINER_OF(ch, Go, chan) : NULL; }

/* The go block of an alt that is not Sched.outside. */
static inline Go *sched_go(Alt *alt) { return CONTAINER_OF(alt, Go, alt); }

#endif
