/* alt.c: see alt.h. */
#include "alt.h"

#include "chan.h"

void alt_withdraw(Alt *alt) {
  for (uint32_t i = 0; i < alt->count; i++) chan_leave(&alt->waiters[i]);
  alt->count = 0;
}
