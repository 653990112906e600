/* blocking.h: how a thread without a scheduler waits on a shared channel: it sleeps. */
#ifndef RUNNEL_SHARED_BLOCKING_H
#define RUNNEL_SHARED_BLOCKING_H

#include "shared/shared_alt.h"

typedef enum BlockingEnd {
  BLOCKING_DONE,     /* the value was put, or one was taken */
  BLOCKING_TIME,     /* the time has passed before */
  BLOCKING_CLOSED,   /* the channel is closed */
  BLOCKING_ALONE,    /* no other state or thread holds the channel any more */
  BLOCKING_NO_MEMORY /* there is no memory for waiting */
} BlockingEnd;

/* Puts a value. Waits for at most `ns`, or without limit if negative, until a take takes it or there is room. Consumes
   the value in all cases. Any thread that runs no scheduler, since it blocks. */
BlockingEnd blocking_put(SharedChan *chan, SharedValue value, int64_t ns);

/* Takes a value in the same way. Sets *value to it; if the channel is closed, to the reason, or SHARED_NIL. */
BlockingEnd blocking_take(SharedChan *chan, SharedValue *value, int64_t ns);

#endif
