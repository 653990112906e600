/* explore.c: see explore.h. */
#include "sim/explore.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/random.h"
#include "blocks/timer.h"
#include "sim/busy.h"
#include "sim/reduce.h"

/* The most choices in one run, besides those of its steps. */
enum { MORE_CHOICES = 1 << 16 };

/* Each step advances the clock of a trace by this. Virtual time stands still meanwhile, so all records would have the
   same time. */
static const int64_t STEP_NS = 1000;

/* ---- the lists ---- */

bool explore_add(Choices *list, Choice choice) {
  Choice *items = (Choice *)grow(list->items, &list->size, list->n + 1, sizeof *items);
  if (!items) return false; /* uncovered: only when memory runs out */
  list->items = items;
  list->items[list->n++] = choice;
  return true;
}

bool explore_backtrack(Explore *e) {
  if (e->reduce) return reduce_backtrack(e);
  Choices path = e->made;
  e->made = e->path;
  while (path.n && path.items[path.n - 1].chosen + 1 >= path.items[path.n - 1].of >> 2) path.n--;
  if (path.n) path.items[path.n - 1].chosen++;
  e->path = path;
  return path.n > 0;
}

uint32_t explore_hash(const Explore *e) {
  uint32_t h = 2166136261u; /* FNV-1a */
  for (uint32_t i = 0; i < e->made.n; i++) h = (h ^ e->made.items[i].of) * 16777619u;
  return h ^ h >> 16;
}

void explore_close(Explore *e) {
  free(e->made.items);
  free(e->script.items);
  free(e->path.items);
  e->made = e->script = e->path = (Choices){0};
}

/* ---- a run ---- */

void explore_begin(Explore *e, const Choices *prefix, Strategy strategy, uint64_t seed, uint32_t changes) {
  e->made.n = e->steps = e->nlowered = e->swerved = 0;
  e->gave_up = e->astray = false;
  e->prefix = prefix;
  e->strategy = strategy;
  random_seed(&e->random, seed);
  e->nchanges = changes < EXPLORE_CHANGES ? changes : EXPLORE_CHANGES;
  for (uint32_t i = 0; i < e->nchanges; i++) e->change[i] = 1 + random_below(&e->random, e->most ? e->most : 1);
}

/* The run has met `now` instead of the choice that its prefix says. */
static void go_astray(Explore *e, Choice now) {
  e->astray = true;
  e->stray_at = (uint32_t)e->made.n;
  e->stray_before = e->prefix->items[e->made.n];
  e->stray_now = now;
}

void explore_end(Explore *e) {
  if (e->steps > e->most) e->most = e->steps;
  if (e->gave_up || e->astray || !e->prefix || e->made.n >= e->prefix->n) return;
  if (e->prefix->items[e->made.n].of) go_astray(e, (Choice){0});
}

/* Makes a choice: the prefix's, or behind the prefix `tail`, the strategy's. */
static uint32_t choose(Explore *e, uint32_t n, ChoiceKind kind, uint32_t tail) {
  Choice choice = {.chosen = tail, .of = n << 2 | kind};
  if (e->prefix && e->made.n < e->prefix->n && !e->astray) {
    const Choice *wanted = &e->prefix->items[e->made.n];
    if (wanted->of && wanted->of != choice.of) go_astray(e, choice);
    choice.chosen = wanted->chosen < n ? wanted->chosen : n - 1;
  }
  if (kind != CHOICE_READY || choice.chosen) e->swerved = e->steps;
  if (e->made.n >= e->limit + MORE_CHOICES || !explore_add(&e->made, choice)) {
    e->gave_up = true;
    return 0;
  }
  if (UNLIKELY(e->on_choice != NULL)) e->on_choice(e, kind, choice.chosen, n);
  return choice.chosen;
}

uint32_t explore_choose(Explore *e, uint32_t n, ChoiceKind kind) {
  return choose(e, n, kind, e->strategy == STRATEGY_FIRST ? 0 : random_below(&e->random, n));
}

uint32_t explore_seldom(Explore *e, uint32_t n, uint32_t odds) {
  uint32_t tail = e->strategy == STRATEGY_FIRST ? 0 : random_seldom(&e->random, n, odds);
  return choose(e, n, CHOICE_PROGRAM, tail);
}

/* ---- the next go block ---- */

/* The priority of a go block, from its id relative to the first id of its world, so that it is the same in each run. Id
   0 stands for the next timer. */
static uint32_t priority(const Explore *e, uint64_t id) {
  for (uint32_t i = 0; i < e->nlowered; i++) {
    if (e->lowered[i] == id) return EXPLORE_CHANGES - i;
  }
  uint64_t h = e->random ^ (id + 1) * UINT64_C(0x9E3779B97F4A7C15);
  h = (h ^ h >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
  return (uint32_t)(h >> 32) | UINT32_C(1) << 31;
}

/* The number of the one with the highest priority of the first `ready` ready go blocks, or of the timer; and its id. */
static uint32_t highest(const Explore *e, const World *w, uint32_t ready, uint32_t n, uint64_t *id) {
  const Link *link = w->ready.first;
  uint32_t best = 0, most = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t of = 0;
    if (i < ready) {
      of = sched_go(CONTAINER_OF(link, Alt, own.waiter.link))->chan.id - w->first_id + 1;
      link = link->next;
    }
    uint32_t p = priority(e, of);
    if (p <= most) continue;
    best = i;
    most = p;
    *id = of;
  }
  return best;
}

/* The strategy's choice among the first `ready` ready go blocks, and the timer if `n` counts it, too. */
static uint32_t choose_ready(Explore *e, const World *w, uint32_t ready, uint32_t n) {
  if (e->strategy == STRATEGY_FIRST) return 0;
  if (e->strategy == STRATEGY_RANDOM) return random_below(&e->random, n);
  uint64_t id = 0;
  uint32_t best = highest(e, w, ready, n, &id);
  for (uint32_t i = 0; i < e->nchanges; i++) {
    if (e->change[i] > e->steps) continue;
    e->change[i] = UINT32_MAX; /* this change is done */
    e->lowered[e->nlowered++] = id;
    best = highest(e, w, ready, n, &id);
  }
  return best;
}

/* Whether the order has been first come, first served for long, without other choices: what goes on then goes on for
   ever. Under another order a go block may only wait for one that does not get its turn. */
static bool is_fair(const Explore *e) { return e->steps - e->swerved > e->limit / 2; }

uint32_t explore_steps_left(const World *w, uint32_t n) {
  const Explore *e = w->explore;
  if (!e || e->limit - e->steps > n) return n;
  return e->limit > e->steps || !is_fair(e) ? 1 : 0;
}

/* Whether the time for the search is over; looks at the clock now and then. */
static bool is_late(const Explore *e) {
  enum { OFTEN = 256 };
  return e->steps % OFTEN == 0 && e->until && clock_ns() > e->until;
}

/* How many of the ready go blocks may be next: all but one that has just let the others run (lua/turn.h). */
static uint32_t count_next(const World *w) {
  bool has_turned = w->nready > 1 && w->ready.first->prev == w->turned;
  return w->nready - has_turned;
}

/* The reduction, if it follows this run. */
static Reduce *reduce_of(const Explore *e) { return e && e->reduce && e->reduce->is_on ? e->reduce : NULL; }

void explore_rest(const World *w) {
  Reduce *r = reduce_of(w->explore);
  if (r) footprint_rest(&r->run, w);
}

/* The next of the `n` go blocks that may be next, while a reduction follows the run. */
static Link *next_of_reduced(lua_State *L, Sched *S, uint32_t n) {
  World *w = &S->world;
  Explore *e = w->explore;
  uint32_t first = reduce_next(e->reduce, S, n, (uint32_t)e->made.n);
  if (first == UINT32_MAX) {
    e->gave_up = true;
    luaL_error(L, "sim.explore: this run is given up");
  }
  if (!e->reduce->is_path) first = n > 1 ? choose_ready(e, w, n, n) : 0;
  uint32_t i = n > 1 ? choose(e, n, CHOICE_READY, first) : 0;
  w->turned = NULL;
  Link *link = w->ready.first;
  while (i-- > 0) link = link->next;
  reduce_choose(e->reduce, w, link);
  return link;
}

Link *explore_next(lua_State *L, Sched *S) {
  World *w = &S->world;
  Explore *e = w->explore;
  for (;;) {
    if (e->steps >= e->limit && is_fair(e) && w->busy > e->limit / 2) busy_raise_livelock(L, e->steps);
    if (e->steps >= e->limit || is_late(e)) e->gave_up = true;
    if (UNLIKELY(e->gave_up || e->astray)) luaL_error(L, "sim.explore: this run is given up");
    e->steps++;
    w->steps_ns += STEP_NS;
    int64_t before = w->clock.virtual_ns;
    busy_step(L, S);
    if (reduce_of(e)) {
      e->reduce->run.passes |= before != w->clock.virtual_ns;
      return next_of_reduced(L, S, count_next(w));
    }
    uint32_t ready = count_next(w), n = ready + (e->any_timers && w->heap.count);
    uint32_t i = n > 1 ? choose(e, n, CHOICE_READY, choose_ready(e, w, ready, n)) : 0;
    if (i < ready) {
      w->turned = NULL;
      Link *link = w->ready.first;
      while (i-- > 0) link = link->next;
      return link;
    }
    int64_t due = heap_first(&w->heap)->deadline;
    clock_jump(&w->clock, due);
    timer_fire_due(L, S, due);
  }
}
