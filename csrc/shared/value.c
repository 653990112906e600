/* value.c: see value.h. */
#include "shared/value.h"

#include <stdlib.h>
#include <string.h>

#include "shared/shared_chan.h"

Parcel *parcel_new(size_t size, Budget *budget) {
  if (size > SIZE_MAX - sizeof(Parcel) || !budget_take(budget, sizeof(Parcel) + size)) return NULL;
  Parcel *parcel = (Parcel *)malloc(sizeof(Parcel) + size);
  if (!parcel) {
    budget_give(budget, sizeof(Parcel) + size);
    return NULL;
  }
  parcel->budget = budget;
  atomic_init(&parcel->holds, 1);
  parcel->nchans = 0;
  parcel->size = size;
  parcel->chans = NULL;
  return parcel;
}

bool shared_value_set_string(SharedValue *value, const char *bytes, size_t size, Budget *budget) {
  *value = (SharedValue){.kind = SHARED_NIL};
  if (size <= SHARED_SHORT_MAX) {
    value->kind = SHARED_SHORT;
    value->size = (uint8_t)size;
    if (size) memcpy(value->as.text, bytes, size);
    return true;
  }
  Parcel *parcel = parcel_new(size, budget);
  if (!parcel) return false;
  memcpy(parcel->bytes, bytes, size);
  value->kind = SHARED_LONG;
  value->as.parcel = parcel;
  return true;
}

/* Removes a hold; channels that nothing holds any more are added to a list. */
static void let_go(Parcel *parcel, SharedChan **unheld) {
  if (atomic_fetch_sub_explicit(&parcel->holds, 1, memory_order_acq_rel) > 1) return;
  for (uint32_t i = 0; i < parcel->nchans; i++) shared_chan_let_go(parcel->chans[i], unheld);
  free(parcel->chans);
  budget_give(parcel->budget, sizeof(Parcel) + parcel->size);
  free(parcel);
}

void parcel_release(Parcel *parcel) {
  SharedChan *unheld = NULL;
  let_go(parcel, &unheld);
  shared_chan_free(unheld);
}

SharedValue shared_value_copy(const SharedValue *value) {
  if (value->kind == SHARED_LONG || value->kind == SHARED_PACKED) {
    atomic_fetch_add_explicit(&value->as.parcel->holds, 1, memory_order_relaxed);
  } else if (value->kind == SHARED_CHAN) {
    shared_chan_hold(value->as.chan);
  }
  return *value;
}

void shared_value_let_go(SharedValue *value, SharedChan **unheld) {
  SharedKind kind = (SharedKind)value->kind;
  value->kind = SHARED_NIL;
  if (kind == SHARED_LONG || kind == SHARED_PACKED) let_go(value->as.parcel, unheld);
  else if (kind == SHARED_CHAN) shared_chan_let_go(value->as.chan, unheld);
}

void shared_value_drop(SharedValue *value) {
  SharedChan *unheld = NULL;
  shared_value_let_go(value, &unheld);
  shared_chan_free(unheld);
}
