/* explore.h: the choices of a simulation, made by a script or a strategy instead of at random, and recorded.
   sim.explore searches them: the search itself, which runs a program again and again, is in Lua
   (search/explore.lua).

   A choice has two or more alternatives: the ready go block that runs next, the ready operation that an alts without
   priority does, a number of sim.choose. Alternative 0 is the first in the run queue, the first operation given, 1. A
   run follows its prefix, a list of choices, to its end, and then a strategy:

   - first: always alternative 0, so a run without a prefix is first come, first served;
   - random;
   - priorities: the ready go block with the highest of random priorities, which change at a few random steps
     (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs,
     2010); other choices at random.

   With the path as its prefix and `first` after it, and explore_backtrack after each run, the search is depth first.

   The lists are in malloc'ed memory: choices are made where Lua must not allocate. */
#ifndef RUNNEL_EXPLORE_H
#define RUNNEL_EXPLORE_H

#include "core/state.h"

struct Reduce;

typedef enum Strategy { STRATEGY_FIRST, STRATEGY_RANDOM, STRATEGY_PRIORITIES } Strategy;

typedef enum ChoiceKind {
  CHOICE_READY = 1, /* of ready go blocks; with any_timers, the last one is the next timer */
  CHOICE_ALTS,      /* of ready operations of an alts */
  CHOICE_PROGRAM,   /* of sim.choose */
  CHOICE_NONE       /* no choice: for `on_choice`, when the program waits for ever and is about to raise a deadlock */
} ChoiceKind;

typedef struct Choice {
  uint32_t chosen; /* the number, from 0 */
  uint32_t of;     /* how many there were, and the kind: n << 2 | kind. In a prefix, 0: not known */
} Choice;

typedef struct Choices {
  Choice *items;
  size_t n;    /* how many */
  size_t size; /* the number that the memory has room for */
} Choices;

/* Changes of priorities in one run, at most. */
enum { EXPLORE_CHANGES = 4 };

typedef struct Explore {
  Choices made;                      /* the choices of this run, or of the last one */
  Choices script;                    /* a prefix that was set */
  Choices path;                      /* the prefix of the depth-first search */
  const Choices *prefix;             /* of this run: one of these two, or NULL */
  Strategy strategy;                 /* of this run */
  uint64_t random;                   /* state of the strategy's random numbers */
  uint32_t steps;                    /* go blocks resumed in this run */
  uint32_t most;                     /* the most in a run so far */
  uint32_t limit;                    /* longer runs are given up */
  uint32_t swerved;                  /* steps at the last choice that was not of ready go blocks, or not the first */
  int64_t until;                     /* ns of the system's clock: then the run is given up, too */
  bool any_timers;                   /* a timer may fire while go blocks are ready */
  bool gave_up;                      /* this run was given up */
  bool astray;                       /* this run has met a choice that differs from that of its prefix: */
  uint32_t stray_at;                 /* its number, from 0 */
  Choice stray_before;               /* what the prefix says */
  Choice stray_now;                  /* what there was, or nothing: the run ended before */
  uint32_t nchanges;                 /* changes of priorities in this run */
  uint32_t nlowered;                 /* and how many there were so far */
  uint32_t change[EXPLORE_CHANGES];  /* at which steps */
  uint64_t lowered[EXPLORE_CHANGES]; /* the go blocks that got the lowest priority, in this order */
  struct Reduce *reduce;             /* leaves out equivalent orders (sim/reduce.h), or NULL */
  /* Called for each choice, or NULL. */
  void (*on_choice)(struct Explore *e, ChoiceKind kind, uint32_t chosen, uint32_t of);
} Explore;

/* Begins a run with that prefix (or NULL) and strategy. */
void explore_begin(Explore *e, const Choices *prefix, Strategy strategy, uint64_t seed, uint32_t changes);

/* Ends it: notes if it was shorter than its prefix. */
void explore_end(Explore *e);

/* A choice of n, 2 or more: its number from 0. Does not raise; a run with too many choices is given up at its next
   step. */
uint32_t explore_choose(Explore *e, uint32_t n, ChoiceKind kind);

/* A choice of the program whose first alternative is the rule: at random, one of the others comes once in `odds`. */
uint32_t explore_seldom(Explore *e, uint32_t n, uint32_t odds);

/* The next ready go block, still in the run queue, which is not empty. Raises to end a run that is given up or went
   astray; or a livelock. May fire a timer. */
Link *explore_next(lua_State *L, Sched *S);

/* How many of `n` steps a run that looks for leaks may still take: 0 if the go blocks that are left go on for ever, as
   far as a fair order shows. `n` if no search runs. */
uint32_t explore_steps_left(const World *w, uint32_t n);

/* Nothing is ready in the world: time jumps, or the search's function gets the error of a deadlock. */
void explore_rest(const World *w);

/* After a run with the path as its prefix: the path becomes the next one that was not run. Returns false if there is
   none. */
bool explore_backtrack(Explore *e);

/* Adds a choice to a list. Returns false if there is no memory. */
bool explore_add(Choices *list, Choice choice);

/* A hash of what there was to choose in the last run: of the kind and the number of alternatives of each choice. */
uint32_t explore_hash(const Explore *e);

/* Frees all memory. */
void explore_close(Explore *e);

#endif
