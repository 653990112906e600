/* chan_custom.h: channels whose values go through user code: a transducer, its exception handler, or a buffer policy
   written in Lua.

   While that code runs the channel is busy: other operations on it raise, a close waits until the code returns, and no
   operation may wait. The code is always called protected, so that an error in it leaves the channel as it was. An
   error in a transducer goes to the exception handler, or to on_error. An error in a policy is raised by the operation
   for which the policy was called, also by a waiting put or take; if there is none, the error goes to on_error. */
#ifndef RUNNEL_CHAN_CUSTOM_H
#define RUNNEL_CHAN_CUSTOM_H

#include "channels/chan.h"

typedef struct CustomChan {
  Chan chan;         /* with CHAN_SPECIAL */
  bool has_xform;    /* values go through a transducer */
  bool is_busy;      /* its transducer, handler or policy is running */
  bool closes_later; /* closed while busy: it closes when the code returns */
  bool is_finished;  /* the transducer's completion, and the policy's close, have run */
  bool is_admitting; /* a waiting put is being admitted, and others may wait although there is room */
} CustomChan;

extern const ChanOps chan_custom_ops;

/* The channel as a CustomChan, or NULL if it is none. */
static inline const CustomChan *chan_custom(const Chan *ch) {
  return chan_ops(ch) == &chan_custom_ops ? CONTAINER_OF(ch, const CustomChan, chan) : NULL;
}

/* Pushes a new channel with a buffer of b's kind and limit, and, unless they are 0, with the policy (for
   BUFFER_POLICY), the transducer and the exception handler at the indices `policy`, `xf` and `handler`. Raises what the
   transducer raises, or if it does not return a function. */
void chan_custom_new(lua_State *L, Sched *S, Buffer b, int policy, int xf, int handler);

/* Raises if the channel is busy; also reserves room on the stack for any operation on it. */
void chan_custom_check_busy(lua_State *L, const Chan *ch, int at);

#endif
