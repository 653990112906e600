/* value.c: see value.h. */
#include "shared/value.h"

#include <stdlib.h>
#include <string.h>

#include "shared/shared_chan.h"

/* What a parcel takes in front of its bytes. */
static size_t before_bytes(uint32_t nchans) { return sizeof(Parcel) + nchans * sizeof(SharedChan *); }

Parcel *parcel_new(const char *bytes, size_t size, SharedChan *const *chans, uint32_t nchans, Budget *budget) {
  const size_t before = before_bytes(nchans);
  if (size > SIZE_MAX - before || !budget_take(budget, before + size)) return NULL;
  Parcel *parcel = (Parcel *)malloc(before + size);
  if (!parcel) {
    budget_give(budget, before + size);
    return NULL;
  }
  atomic_init(&parcel->holds, 1);
  parcel->nchans = nchans;
  parcel->size = size;
  parcel->budget = budget;
  parcel->bytes = (char *)parcel + before;
  memcpy(parcel->bytes, bytes, size);
  for (uint32_t i = 0; i < nchans; i++) parcel->chans[i] = shared_chan_hold(chans[i]);
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
  Parcel *parcel = parcel_new(bytes, size, NULL, 0, budget);
  if (!parcel) return false;
  value->kind = SHARED_LONG;
  value->as.parcel = parcel;
  return true;
}

/* Removes a hold; channels that nothing holds any more are added to a list. */
static void let_go(Parcel *parcel, SharedChan **unheld) {
  if (atomic_fetch_sub_explicit(&parcel->holds, 1, memory_order_acq_rel) > 1) return;
  for (uint32_t i = 0; i < parcel->nchans; i++) shared_chan_let_go(parcel->chans[i], unheld);
  budget_give(parcel->budget, before_bytes(parcel->nchans) + parcel->size);
  free(parcel);
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
