/* blocking.h: how a thread without a scheduler waits on a shared channel: it sleeps. */
#ifndef RUNNEL_SHARED_BLOCKING_H
#define RUNNEL_SHARED_BLOCKING_H

#include "shared/alt.h"

typedef enum BlockingEnd {
  BLOCKING_DONE,     /* the value was put */
  BLOCKING_TIME,     /* there was no room in that time */
  BLOCKING_CLOSED,   /* the channel is closed */
  BLOCKING_ALONE,    /* nobody else has the channel any more */
  BLOCKING_NO_MEMORY /* there is no memory for waiting */
} BlockingEnd;

/* Puts a value; waits for at most `ns` until it is taken or there is room, or without limit if that is negative. Takes
   the value over, whatever it returns. Any thread that runs no scheduler, since it blocks. */
BlockingEnd blocking_put(SharedChan *chan, SharedValue value, int64_t ns);

#endif
