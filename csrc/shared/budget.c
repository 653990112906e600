/* budget.c: see budget.h. */
#include "shared/budget.h"

#include <stdatomic.h>
#include <stdlib.h>

struct Budget {
  atomic_uint holds;
  atomic_size_t left; /* bytes */
};

Budget *budget_new(size_t bytes) {
  Budget *budget = (Budget *)malloc(sizeof *budget);
  if (!budget) return NULL;
  atomic_init(&budget->holds, 1);
  atomic_init(&budget->left, bytes);
  return budget;
}

Budget *budget_hold(Budget *budget) {
  atomic_fetch_add_explicit(&budget->holds, 1, memory_order_relaxed);
  return budget;
}

void budget_release(Budget *budget) {
  if (budget && atomic_fetch_sub_explicit(&budget->holds, 1, memory_order_acq_rel) == 1) free(budget);
}

bool budget_has(const Budget *budget, size_t bytes) {
  return !budget || bytes <= atomic_load_explicit(&budget->left, memory_order_relaxed);
}

/* Takes so many bytes, unless that is too much. */
static bool take(Budget *budget, size_t bytes) {
  size_t left = atomic_load_explicit(&budget->left, memory_order_relaxed);
  do {
    if (bytes > left) return false;
  } while (!atomic_compare_exchange_weak(&budget->left, &left, left - bytes));
  return true;
}

bool budget_take(Budget *budget, size_t bytes) {
  if (!budget) return true;
  if (!take(budget, bytes)) return false;
  (void)budget_hold(budget);
  return true;
}

void budget_give(Budget *budget, size_t bytes) {
  if (!budget) return;
  atomic_fetch_add(&budget->left, bytes);
  budget_release(budget);
}

void *budget_allocate(void *data, void *block, size_t old_size, size_t size) {
  Budget *budget = (Budget *)data;
  size_t had = block ? old_size : 0; /* without a block it is a kind of object */
  if (size > had && !take(budget, size - had)) return NULL;
  void *got = NULL;
  if (size) got = realloc(block, size);
  else free(block);
  if (size > had && !got) atomic_fetch_add(&budget->left, size - had);
  else if (had > size && (got || !size)) atomic_fetch_add(&budget->left, had - size);
  return got;
}
