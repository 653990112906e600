/* status.c: see status.h. */
#include "shared/status.h"

#include <stdlib.h>

Status *status_new(void) {
  Status *status = (Status *)malloc(sizeof *status);
  if (!status) return NULL;
  atomic_init(&status->holds, 1);
  atomic_init(&status->owner, NULL);
  atomic_init(&status->has_ended, false);
  return status;
}

Status *status_hold(Status *status) {
  atomic_fetch_add_explicit(&status->holds, 1, memory_order_relaxed);
  return status;
}

void status_release(Status *status) {
  if (atomic_fetch_sub_explicit(&status->holds, 1, memory_order_acq_rel) > 1) return;
  Owner *owner = atomic_load(&status->owner);
  if (owner) owner_release(owner);
  free(status);
}

void status_begin(Status *status, Owner *owner) { atomic_store(&status->owner, owner_hold(owner)); }

void status_end(Status *status) { atomic_store(&status->has_ended, true); }

StatusKind status_look(Status *status, int64_t *since) {
  Owner *owner = status_owner(status);
  *since = owner ? atomic_load_explicit(&owner->looked, memory_order_relaxed) : 0;
  if (atomic_load(&status->has_ended)) return STATUS_ENDED;
  if (*since == 0) return STATUS_STARTING;
  return atomic_load(&owner->asleep) ? STATUS_WAITING : STATUS_COMPUTING;
}
