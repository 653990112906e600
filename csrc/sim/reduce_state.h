/* reduce_state.h: the state of a reduction of orders: see reduce.h. */
#ifndef RUNNEL_REDUCE_STATE_H
#define RUNNEL_REDUCE_STATE_H

#include "sim/footprint.h"
#include "sim/variables.h"

/* A go block that was tried at a place, and what its step has touched there under all its choices. */
typedef struct Tried {
  uint64_t turn;     /* the go block */
  uint64_t *objects; /* of those that existed before the step; the place where it was tried frees them */
  uint32_t n;
} Tried;

/* An order that must be tried at a place: the turns of the go blocks that run next, and then any. */
typedef struct Other {
  uint64_t *turns; /* the place frees them */
  uint32_t n;
} Other;

/* The place of a step in the run that was last. */
typedef struct Place {
  uint64_t turn; /* the go block that runs there */
  Span sleep;    /* in Reduce.sleepers: those that sleep there */
  Tried *tried;  /* those that ran there before */
  size_t ntried, tried_size;
  Other *others; /* what must be tried there */
  size_t nothers, others_size;
  uint64_t *touched; /* what its step has touched under its other choices */
  size_t ntouched, touched_size;
} Place;

typedef struct Reduce {
  Footprint run;       /* the last run */
  Variables variables; /* what its go blocks may share */
  Place *places;       /* of the search's last run */
  size_t nplaces, places_size;
  Tried *sleepers;
  size_t nsleepers, sleepers_size;
  size_t from;    /* the first place where that run differs from the one before */
  Other order;    /* what it tries from there on */
  bool is_on;     /* the run is followed; */
  bool is_path;   /* and it is one of the search. Else its order is another strategy's */
  bool is_asleep; /* it was given up, since it is equivalent to one that was run */
  bool until_end; /* a run ends when its function has returned */
  bool has_ended; /* it has, in the last step; */
  Span left;      /* and these were ready then, in Footprint.words */
  uint64_t key;   /* the key of the run; 0: it was given up */
  Map known;      /* the keys of the search's runs */
  /* ---- for races.c and run_key.c ---- */
  Map last;         /* from an object to the last step that has touched it, or to what the key has of it */
  uint32_t *clocks; /* for each step behind `clocked`, and each go block, that one's last step that comes before it */
  size_t clocks_size, clocked;
  uint32_t *before; /* the steps that come directly before a step */
  size_t nbefore, before_size;
  uint32_t *begins; /* for each go block, its first step in an order */
  size_t begins_size;
  uint64_t *order_now; /* an order that is looked for */
  size_t norder, order_size;
  uint64_t *names; /* for each step, and then each go block, what is the same in equivalent runs */
  size_t names_size;
} Reduce;

#endif
