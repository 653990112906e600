/* next_step.c: see next_step.h. */
#include "sim/next_step.h"

#include <lauxlib.h>

#include "blocks/timer.h"
#include "sim/busy.h"
#include "sim/reduce.h"

/* Each step advances the clock of a trace by this. Virtual time stands still meanwhile, so all records would have the
   same time. */
static const int64_t STEP_NS = 1000;

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

void explore_rest(const World *w) {
  Reduce *r = reduce_running(w);
  if (r) footprint_rest(&r->run, w);
}

/* Link i of the run queue, from 0: its go block runs next. */
static Link *ready_at(World *w, uint32_t i) {
  w->turned = NULL;
  Link *link = w->ready.first;
  while (i-- > 0) link = link->next;
  return link;
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
  if (!e->reduce->is_path) first = n > 1 ? explore_choose_ready(e, w, n, n) : 0;
  uint32_t i = n > 1 ? explore_choose_or(e, n, CHOICE_READY, first) : 0;
  Link *link = ready_at(w, i);
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
    if (reduce_running(w)) {
      e->reduce->run.passes |= before != w->clock.virtual_ns;
      return next_of_reduced(L, S, count_next(w));
    }
    uint32_t ready = count_next(w), n = ready + (e->any_timers && w->heap.count);
    uint32_t i = n > 1 ? explore_choose_or(e, n, CHOICE_READY, explore_choose_ready(e, w, ready, n)) : 0;
    if (i < ready) return ready_at(w, i);
    int64_t due = heap_first(&w->heap)->deadline;
    clock_jump(&w->clock, due);
    timer_fire_due(L, S, due);
  }
}
