/* spin.c: see spin.h. */
#include "shared/spin.h"

enum {
  SHORTEST = 300, /* ns; a shorter look is not worth it */
  FEWEST = 16,    /* sleeps between two failed attempts, at first */
  MOST = 1024,    /* at most */
  IN_TIME = 8     /* this many successful short looks in a row make a long one worth it */
};

/* Whether the pause is over; else counts one wait. */
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
  bool was_asleep = spin->has_woken;
  spin->has_woken = has_woken;
  if (has_woken) return is_over(&spin->seldom) ? (SpinTime){SPIN_LONG, true} : none;
  if (was_asleep) spin->few.left = 0; /* the other thread is awake now and may look at its inbox */
  if (!is_over(&spin->few)) return none;
  if (spin->usual == 0) spin->usual = SPIN_USUAL;
  return (SpinTime){spin->usual, false};
}

void spin_end(Spin *spin, bool has_come) {
  if (spin->has_woken) {
    begin(&spin->seldom); /* also if a result has come, but so late that a sleep would have been as good */
    spin->in_time = 0;
  } else if (has_come) {
    spin->usual = SPIN_USUAL;
    spin->few = (SpinPause){0};
    if (spin->in_time < IN_TIME) {
      spin->in_time++;
      if (spin->in_time == IN_TIME) spin->seldom = (SpinPause){0};
    }
  } else {
    spin->in_time = 0;
    spin->usual /= 2;
    if (spin->usual >= SHORTEST) return;
    spin->usual = SPIN_USUAL;
    begin(&spin->few);
  }
}
