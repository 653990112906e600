/* gather.h: many inputs and one output: the go blocks of a merge or a mix. There is one for each input, and one at a time
   has a value.

   They share a turn. A go block that waits for its input is in the queue of that channel like any take. But a put
   completes the take only while nobody has the turn, and the go block then has the turn, too: so a value is taken from an
   input only when the one before was put on the output. If a put comes meanwhile, the go block moves from the queue of
   its input to that of the turn, and the put waits, as if there was no take. So a message costs the same for any number
   of inputs.

   An alt that waits so has `shared` set, like one that waits on shared channels: then channels ask before they complete
   it (core/others.h), and gather_claim answers. */
#ifndef RUNNEL_GATHER_H
#define RUNNEL_GATHER_H

#include "core/state.h"

/* The turn: a hidden channel, on which nobody puts. The takes in its queue wait for the turn, first in, first out. */
typedef struct Turn {
  Chan chan;        /* the channel */
  const Go *holder; /* the go block that has the turn, or NULL. It may be dead: compare only the pointer */
} Turn;

/* The stack of a go block that waits: the input, the turn, the output. */
enum { GATHER_INPUT = 1, GATHER_TURN, GATHER_OUTPUT };

/* Pushes a new turn, which nobody has. May raise. */
Turn *gather_push_turn(lua_State *L, Sched *S);

/* The take of an alt on an input has been enqueued: from now on it waits for the turn, too. */
void gather_begin(Alt *alt);

/* Whether an alt waits so. */
bool gather_is_waiting(const Alt *alt);

/* Something comes for such an alt: a value, or its input closes. Returns true if the alt takes it, and so has the turn.
   Otherwise withdraws the alt: it waits for the turn now, or, if the output is closed, is woken without results. */
bool gather_claim(lua_State *L, Sched *S, Alt *alt);

/* The holder gives the turn to the first go block that waits for it, which gets no results, or to nobody. */
void gather_release(lua_State *L, Sched *S, Turn *turn);

/* The operation of a go block that waits for the turn. */
extern const Operation gather_for_turn;

#endif
