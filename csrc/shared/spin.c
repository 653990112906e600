/* spin.c: see spin.h. */
#include "shared/spin.h"

enum {
  SHORTEST = 300, /* ns; a shorter look is not worth it */
  FEWEST = 16,    /* sleeps between two attempts that were in vain: at first, */
  MOST = 1024     /* and at most */
};

/* Whether the pause is over; else one wait less is left. */
static bool is_over(SpinPause *pause) {
  if (pause->left == 0) return true;
  pause->left--;
  return false;
}

/* Begins the next pause, twice as long as the last one. */
static void begin(SpinPause *pause) {
  pause->length = pause->length == 0 ? FEWEST : pause->length < MOST ? pause->length * 2 : MOST;
  pause->left = pause->length;
}

SpinTime spin_begin(Spin *spin, bool has_woken) {
  static const SpinTime none = {0};
  spin->is_long = has_woken;
  if (has_woken) {
    return is_over(&spin->seldom) ? (SpinTime){SPIN_LONG, true} : none;
  }
  if (!is_over(&spin->few)) return none;
  if (spin->usual == 0) spin->usual = SPIN_USUAL;
  return (SpinTime){spin->usual, false};
}

void spin_end(Spin *spin, bool has_come) {
  if (has_come) {
    spin->usual = SPIN_USUAL;
    spin->few = (SpinPause){0};
    spin->seldom = (SpinPause){0};
  } else if (spin->is_long) {
    begin(&spin->seldom);
  } else {
    spin->usual /= 2;
    if (spin->usual >= SHORTEST) return;
    spin->usual = SPIN_USUAL;
    begin(&spin->few);
  }
}
