/* gather.h: takes from many channels, the inputs, at a cost that does not depend on how many they are.

   An alts enters the queues of all its channels, and leaves them all, for each value. A Gather has two go blocks
   instead. The holder is parked for the whole time, as in an alts, and its waiters stay in the queues of the inputs. The
   taker takes the values: it waits on a channel of the Gather, `taker`, on which nobody puts. When something comes for a
   waiter of the holder, that waiter leaves its queue, and:

   - if the taker waits, its take is completed in place of the holder's: the value is handed to it;
   - otherwise the input is added to those that may be ready. The put waits, or stores its value, as if there were no
     take.

   The taker tries those inputs, first come, first served, and puts the waiters of those that have nothing back into
   their queues. So the taker has at most one value, and no put touches more than one input.

   The alts of both have `shared` set while they wait, like one that waits on shared channels: then a channel asks before
   it completes the alt (core/others.h), and gather_claim answers; and what lists waits shows the holder's as the
   taker's. The holder is hidden. Shared channels cannot be inputs. */
#ifndef RUNNEL_GATHER_H
#define RUNNEL_GATHER_H

#include "core/state.h"

/* A userdata. Its user values are the next two. */
typedef struct Gather {
  const void *tag;  /* tells it from other userdata (gather_to) */
  Chan *taker;      /* the channel on which the taker waits */
  Go *holder;       /* NULL until it waits for the first time */
  uint32_t n;       /* inputs */
  uint32_t current; /* the number, from 1 on, of the input that the taker has taken from; 0: none, or it is closed */
  uint32_t first;   /* in the ring: the input to try next */
  uint32_t count;   /* inputs in the ring: those that may be ready. The others wait, or are closed */
  uint32_t ring[];  /* their numbers; room for all */
} Gather;

enum { GATHER_TAKER = 1, GATHER_HOLDER }; /* the user values */

/* Where it is on the stack of the holder, and of the taker, while they wait. */
enum { GATHER_AT_HOLDER = 1, GATHER_AT_TAKER };

/* Pushes a Gather for n inputs; S->others is set. May raise. */
Gather *gather_push(lua_State *L, Sched *S, uint32_t n);

/* The Gather at index `i` of the stack; NULL: that is something else. */
Gather *gather_to(lua_State *L, int i);

/* Adds an input to the ring. */
static inline void gather_add(Gather *g, uint32_t i) {
  uint32_t end = g->first + g->count++;
  g->ring[end < g->n ? end : end - g->n] = i;
}

/* Removes the first input from the ring, which must have one, and returns it. */
static inline uint32_t gather_next(Gather *g) {
  uint32_t i = g->ring[g->first];
  if (++g->first == g->n) g->first = 0;
  g->count--;
  return i;
}

/* The alt of the running go block, with its waiters, becomes the holder's. */
void gather_hold(Gather *g, Alt *alt);

/* The alt of the running go block waits on the taker's channel. */
void gather_await(Alt *alt);

/* Whether an alt is that of a holder, or of a taker, that waits. */
bool gather_is_waiting(const Alt *alt);

/* Whether the holder waits. */
bool gather_is_held(const Gather *g);

/* Whether a waiter of a parked go block, in no queue, is that of a holder's input that is to be tried, has been taken
   from, or is closed. */
bool gather_is_out(const Waiter *w);

/* Something comes for a waiter of a holder or a taker (Others.claim). */
Waiter *gather_claim(Waiter *w);

/* A taker waits for what its holder waits for (Others.shown). */
const Alt *gather_shown(const Alt *alt);

#endif
