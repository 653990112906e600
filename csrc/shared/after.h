/* after.h: what a thread does after it has released the locks of channels. For shared_chan.c and shared_alt.c. */
#ifndef RUNNEL_SHARED_AFTER_H
#define RUNNEL_SHARED_AFTER_H

#include <stdlib.h>

#include "shared/shared_alt.h"

enum { WAKES = 8 };

/* Owners to wake, and what to drop and free. */
typedef struct After {
  Owner *owners[WAKES];  /* each with a hold */
  uint32_t nowners;      /* their number */
  SharedValue dropped;   /* a value that the buffer has dropped */
  SharedReturn *emptied; /* to be freed */
} After;

/* Notes an owner, with a hold on it: after_finish wakes it. */
static inline void after_note(After *after, Owner *owner) {
  if (after->nowners < WAKES) {
    after->owners[after->nowners++] = owner;
  } else {
    owner_wake(owner); /* rare, and correct under a lock, too */
    owner_release(owner);
  }
}

/* Wakes the noted owners, and drops and frees the rest. */
static inline void after_finish(After *after) {
  for (uint32_t i = 0; i < after->nowners; i++) {
    owner_wake(after->owners[i]);
    owner_release(after->owners[i]);
  }
  shared_value_drop(&after->dropped);
  free(after->emptied);
}

#endif
