/* footprint.h: what each step of a run of a search has touched. A step is what a go block does from one resume to its
   next wait. Two steps of different go blocks depend on each other if both touch one object; steps that do not can
   change places, and nothing is different (sim/reduce.h).

   An object is a channel; the turn of a go block, which its own steps touch, and those that wake or cancel it; the
   pending timers; or everything. A step touches

   - each channel on which it puts, takes, closes, or looks, also in vain, and all channels of an alts;
   - each go block that it wakes, and all the channels on which that one no longer waits then;
   - for each variable that it writes (sim/variables.h), the go blocks that can reach it.

   When nothing is ready, the steps before come before all later ones, whatever they touch: time jumps.

   Most of this is what the core tells observers. The rest is compared from step to step: which go blocks have become
   ready, and on what they waited. So nothing of it costs anything outside of a search. */
#ifndef RUNNEL_FOOTPRINT_H
#define RUNNEL_FOOTPRINT_H

#include "base/map.h"
#include "core/state.h"

/* The objects that are no channels and no go blocks. */
enum { OBJECT_TIMERS = 2, OBJECT_ALL = 3 };

/* A list of `n` items from `first` on, in one of the arrays of Footprint. */
typedef struct Span {
  size_t first;
  uint32_t n;
} Span;

typedef struct Step {
  uint32_t go;   /* the go block that it resumes: a number in Footprint.blocks */
  uint32_t made; /* the choices of the run before it */
  uint32_t next; /* how many of `queue`, from the first on, could be next */
  bool rests;    /* before it, nothing was ready */
  Span queue;    /* in `words`: the ready go blocks, in the order of the run queue */
  Span woken;    /* in `words`: the go blocks that have become ready in it */
  Span objects;  /* in `objects`: what it has touched, */
  uint32_t done; /* of these, so many; the others when it was tried elsewhere (sim/reduce.h) */
  uint64_t born; /* objects from this one on have not existed before it */
} Step;

/* A go block of a run. */
typedef struct Block {
  uint64_t turn;         /* the object that is its turn */
  Span waits;            /* in `waits`: the channels on which it has waited last */
  const uint64_t *tried; /* what its next step has touched when it was tried before it was woken from sleep; or NULL */
  uint32_t ntried;       /* how many these are */
} Block;

typedef struct Footprint {
  Step *steps;
  size_t n, size;
  uint64_t *objects;
  size_t nobjects, objects_size;
  uint64_t *waits;
  size_t nwaits, waits_size;
  uint32_t *words;
  size_t nwords, words_size;
  Block *blocks;
  size_t nblocks, blocks_size;
  Map numbers;    /* from the turn of a go block to its number in `blocks`, from 1 */
  const Alt *alt; /* of the go block that the last step resumes; NULL once it has ended */
  bool is_open;   /* the last step has not ended yet */
  bool rests;     /* nothing was ready since */
  bool passes;    /* time has passed since, without a jump (sim/busy.h) */
  bool failed;    /* memory has run out: the run says nothing */
} Footprint;

/* Makes room for `n` items of `size` bytes in the array at *items (base/grow.h). Returns false, and notes it, if there is
   no memory. */
bool footprint_room(Footprint *f, void *items, size_t *capacity, size_t n, size_t size);

/* Begins a run. */
void footprint_begin(Footprint *f);

/* Frees all memory. */
void footprint_close(Footprint *f);

/* The objects that are a channel, and the turn of a go block: the same in all runs that are the same until it is made. */
uint64_t footprint_channel(const World *w, const Chan *ch);
uint64_t footprint_turn(const World *w, const Go *go);

/* Whether the object has not existed before the step. */
static inline bool footprint_is_born_in(const Step *s, uint64_t object) { return !(object >> 63) && object >= s->born; }

/* The step that has not ended yet, if there is one, touches an object. */
void footprint_touch(Footprint *f, uint64_t object);

/* Ends the last step; the first one when the run has ended, and nobody knows what is ready. */
void footprint_finish(Footprint *f);
void footprint_end(Footprint *f, const World *w);

/* Ends the last step and adds the next one. `next` of the ready go blocks, from the first on, may be chosen. Returns NULL
   if memory has run out. */
const Step *footprint_next(Footprint *f, const Sched *S, uint32_t next, uint32_t made);

/* The go block that is ready at this link is chosen for the last step. */
void footprint_choose(Footprint *f, const World *w, Link *link);

/* Its go block has parked, or sleeps, or has ended: notes on what it waits. */
void footprint_left(Footprint *f, const World *w);

/* Nothing is ready. */
void footprint_rest(Footprint *f, const World *w);

/* Adds the ready go blocks to f->words. */
Span footprint_queue(Footprint *f, const World *w);

#endif
