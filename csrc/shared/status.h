/* status.h: what a thread does, as the thread that has started it sees it. */
#ifndef RUNNEL_SHARED_STATUS_H
#define RUNNEL_SHARED_STATUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/owner.h"

typedef struct Status {
  atomic_uint holds;      /* of the thread, and of threads that look at it */
  _Atomic(Owner *) owner; /* the thread's scheduler, with a hold; NULL until it has one */
  atomic_bool has_ended;  /* its state is closed */
} Status;

/* The content of a userdata that holds a status (ATTR_THREAD). */
typedef struct StatusHold {
  Status *status; /* with a hold */
} StatusHold;

typedef enum StatusKind {
  STATUS_STARTING,  /* its scheduler has not run yet */
  STATUS_COMPUTING, /* runs go blocks */
  STATUS_WAITING,   /* waits for a timer, an event or another thread */
  STATUS_ENDED      /* its state is closed */
} StatusKind;

/* A new status with one hold, or NULL when memory runs out. */
Status *status_new(void);

/* Adds a hold; drops one. Any thread. */
Status *status_hold(Status *status);
void status_release(Status *status);

/* For the thread itself, once: its scheduler; and that it has ended. */
void status_begin(Status *status, Owner *owner);
void status_end(Status *status);

/* Returns what the thread does, and sets *since to when it began that, or to 0 if unknown. Any thread. A running thread
   looks at the clock every few go blocks: *since is then the time of its last look. */
StatusKind status_look(Status *status, int64_t *since);

/* The thread's scheduler, as long as the status is held; or NULL. */
static inline Owner *status_owner(Status *status) { return atomic_load(&status->owner); }

#endif
