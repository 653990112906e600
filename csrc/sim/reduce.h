/* reduce.h: a depth-first search that runs one order of each set of equivalent ones: source sets with sleep sets
   (Abdulla, Aronis, Jonsson, Sagonas: Optimal Dynamic Partial Order Reduction, 2014).

   Two orders are equivalent if one becomes the other by changing the places of neighbouring steps that do not depend on
   each other (sim/footprint.h). After each run the search looks for races: two steps that depend on each other, and that
   nothing else puts in this order. For each of them it notes, at the place of the first one, a go block that begins the
   other order. A go block that was tried at a place sleeps at the places that follow, until a step depends on what it
   would do: until then each order with it is equivalent to one that was run. Then it may do less than when it was tried:
   it waits, and does not do what follows. It counts as if it had touched the same, or races with it would be missed (the
   order of what depends on each other must not shrink so: property 7 there).

   Each run has a key, which is the same for equivalent runs: for each object the order of the steps that have touched
   it. After a complete search, a run in any order must have a known key, or go blocks share what the search cannot
   see. */
#ifndef RUNNEL_REDUCE_H
#define RUNNEL_REDUCE_H

#include "core/observe.h"
#include "sim/explore.h"
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

/* What the core tells of the steps. The running search has a `reduce`. */
extern const Observer reduce_observer;

/* Begins a run that is followed. The latter ends it, and returns false if memory has run out. `is_whole`: it was not
   given up. */
void reduce_begin(lua_State *L, Reduce *r, bool is_path);
bool reduce_end(lua_State *L, const Explore *e, bool is_whole);

/* Ends the last step and begins another one, for which the first `next` ready go blocks may be chosen. Returns the first
   of them that does not sleep, from 0 on; or UINT32_MAX: all sleep, or memory has run out. */
uint32_t reduce_next(Reduce *r, const Sched *S, uint32_t next, uint32_t made);

/* The go block that is ready at this link runs next. */
void reduce_choose(Reduce *r, const World *w, Link *link);

/* After a run of the search: makes e->path the prefix of its next one. Returns false if there is none. */
bool reduce_backtrack(Explore *e);

/* Frees all memory. */
void reduce_close(lua_State *L, Reduce *r);

/* ---- races.c ---- */

/* Whether this go block was tried at the place, is tried there now, must be tried, or sleeps. */
bool races_has(const Reduce *r, const Place *place, uint64_t turn);

/* Adds what must be tried at a place, unless races_has the first of the go blocks. */
void races_try(Reduce *r, Place *place, const uint64_t *turns, uint32_t n);

/* Looks for the races of the run's steps from r->from on, and notes what must be tried for each. There is a step. */
void races_find(Reduce *r);

/* ---- run_key.c ---- */

/* The key of the run, not 0. Its choices were e->made. */
uint64_t run_key(Reduce *r, const Explore *e);

#endif
