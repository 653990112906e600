/* profile_blocked.c: see profile_blocked.h. */
#include "profile/profile_blocked.h"

enum {
  LEAST = 1000000,      /* ns: what blocks for less is not measured */
  MOST_PATIENCE = 1024, /* the most signals in a row, about 4 ms apart, until a program counts as busy */
  QUIET = 20000000      /* ns without a signal after which the program is not busy any more */
};

void profile_blocked_set_hook(const Profile *p, lua_State *co, int mask) {
  lua_Hook hook = lua_gethook(co);
  if (hook && hook != p->hook) return;
  if (!mask && profile_blocked_is_sought(p)) mask = LUA_MASKRET;
  if (lua_gethookmask(co) != mask) lua_sethook(co, mask ? p->hook : NULL, mask, mask & LUA_MASKCOUNT ? 1 : 0);
}

/* Begins a measurement at `now`. */
static void begin(Profile *p, int64_t now) {
  atomic_store(&p->is_late, false);
  p->use = profile_timer_use();
  p->returned = now;
}

void profile_blocked_enter(Profile *p, lua_State *co) {
  const World *w = &p->S->world;
  if (!profile_blocked_is_sought(p)) {
    /* seldom covered: no other program may have the processor while this one computes */
    if (w->clock.is_virtual || w->looked - atomic_load(&p->signalled) < QUIET) return;
    atomic_store(&p->busy, 0); /* seldom covered: only after 20 ms without a signal */
  }
  begin(p, clock_ns());
  profile_blocked_set_hook(p, co, 0);
}

void profile_blocked_leave(const Profile *p, lua_State *co) {
  if (lua_gethook(co) == p->hook) lua_sethook(co, NULL, 0, 0);
}

/* The thread has been blocked if it has given up the processor itself. Without that, other programs had it: the time
   that has passed tells nothing. */
int64_t profile_blocked_measure(Profile *p) {
  int64_t now = clock_ns(), took = now - p->returned;
  if (LIKELY(took < LEAST && !atomic_load_explicit(&p->is_late, memory_order_relaxed))) {
    p->returned = now;
    return 0;
  }
  ThreadUse before = p->use;
  begin(p, now);
  took -= p->use.used - before.used; /* at least what was used since the last return: blocked is never too long */
  if (took < LEAST || p->use.waits == before.waits) return 0;
  p->blocked += took;
  return took;
}

void profile_blocked_tick(Profile *p, int64_t now, int64_t ns) {
  int64_t passed = now - atomic_load(&p->signalled), busy = atomic_load(&p->busy);
  bool was_sought = profile_blocked_is_sought(p);
  atomic_store(&p->busy, passed < 2 * ns ? busy + 1 : 0);
  /* It was blocked while nothing was sought: seeks for longer the next time. */
  if (!was_sought && passed - atomic_load(&p->idled) > 2 * ns + QUIET && p->patience < MOST_PATIENCE) p->patience *= 4;
  atomic_store(&p->idled, 0);
  atomic_store(&p->signalled, now);
  atomic_store(&p->is_late, true);
}

void profile_blocked_idle(Profile *p) { p->idle_since = clock_ns(); }

void profile_blocked_awake(Profile *p) { atomic_fetch_add(&p->idled, clock_ns() - p->idle_since); }
