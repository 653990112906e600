/* owner.c: see owner.h. */
#include "shared/owner.h"

Owner *owner_new(void (*wake)(void *data), void (*drop)(void *data), void *data) {
  Owner *owner = (Owner *)cache_new(sizeof *owner);
  if (!owner) return NULL;
  atomic_init(&owner->holds, 1);
  atomic_init(&owner->inbox, NULL);
  atomic_init(&owner->asleep, false);
  atomic_init(&owner->looked, 0);
  atomic_init(&owner->job, 0);
  owner->wake = wake;
  owner->drop = drop;
  owner->data = data;
  return owner;
}

Owner *owner_hold(Owner *owner) {
  atomic_fetch_add_explicit(&owner->holds, 1, memory_order_relaxed);
  return owner;
}

void owner_release(Owner *owner) {
  if (atomic_fetch_sub_explicit(&owner->holds, 1, memory_order_acq_rel) > 1) return;
  if (owner->drop) owner->drop(owner->data);
  cache_free(owner);
}

bool owner_push(Owner *owner, Arrival *alt) {
  Arrival *first = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
  do {
    alt->next = first;
  } while (!atomic_compare_exchange_weak(&owner->inbox, &first, alt));
  return atomic_load(&owner->asleep);
}

void owner_wake(Owner *owner) {
  if (atomic_load(&owner->asleep) && atomic_exchange(&owner->asleep, false)) owner->wake(owner->data);
}

Arrival *owner_pop_all(Owner *owner) {
  Arrival *newest = atomic_exchange_explicit(&owner->inbox, NULL, memory_order_acquire), *oldest = NULL;
  while (newest) {
    Arrival *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

bool owner_sleep(Owner *owner) {
  atomic_store(&owner->asleep, true);
  if (!atomic_load(&owner->inbox)) return true;
  owner_awake(owner);
  return false;
}

void owner_awake(Owner *owner) {
  if (atomic_load_explicit(&owner->asleep, memory_order_relaxed)) atomic_store(&owner->asleep, false);
}
