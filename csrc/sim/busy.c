/* busy.c: see busy.h. */
#include "sim/busy.h"

#include <lauxlib.h>

#include "blocks/timer.h"
#include "errors/error.h"
#include "errors/inspect.h"

enum {
  FREE = 5,        /* units without a jump until time begins to pass */
  MOST = 500,      /* units without a jump until it is a livelock */
  FIRST_NS = 1000, /* how long a step takes in the first unit after FREE */
  DOUBLINGS = 40
};

/* Counts steps. Time that has moved by itself begins the count anew. */
static void count(World *w, uint32_t n) {
  if (w->busy_since != w->clock.virtual_ns) {
    w->busy_since = w->clock.virtual_ns;
    w->busy = 0;
  }
  w->busy += n;
}

/* Lets as much time pass as the last step takes, not beyond `until`. Returns false if that is none. */
static bool pass(World *w, int64_t until) {
  uint32_t free = FREE * w->busy_unit;
  if (LIKELY(w->busy <= free)) return false;
  uint32_t doublings = (w->busy - free) / w->busy_unit;
  int64_t now = w->clock.virtual_ns;
  now = clock_after(now, (int64_t)FIRST_NS << (doublings < DOUBLINGS ? doublings : DOUBLINGS));
  clock_jump(&w->clock, now < until ? now : until);
  w->busy_since = w->clock.virtual_ns;
  return true;
}

static bool is_too_long(const World *w) { return UNLIKELY(!w->explore && w->busy > MOST * BUSY_UNIT); }

void busy_add(Sched *S, uint32_t n) {
  if (S->world.clock.is_virtual && !S->world.explore) count(&S->world, n);
}

void busy_read(lua_State *L, Sched *S) {
  World *w = &S->world;
  if (LIKELY(!w->clock.is_virtual)) return;
  count(w, 1);
  if (is_too_long(w)) luaL_error(L, "the clock was read %d times, and nothing has waited meanwhile", MOST * BUSY_UNIT);
  (void)pass(w, INT64_MAX);
}

int busy_raise_livelock(lua_State *L, uint32_t steps) {
  lua_pushinteger(L, steps);
  if (!inspect_write_report(L, "livelock", 1)) lua_pushfstring(L, "livelock: after %d steps nothing waits", (int)steps);
  return error_raise(L);
}

void busy_step(lua_State *L, Sched *S) {
  World *w = &S->world;
  count(w, 1);
  if (is_too_long(w)) busy_raise_livelock(L, w->busy);
  const Timer *first = heap_first(&w->heap);
  if (LIKELY(!first || !pass(w, first->deadline))) return;
  if (first->deadline <= w->clock.virtual_ns) timer_fire_due(L, S, w->clock.virtual_ns);
}
