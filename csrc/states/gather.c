/* gather.c: see gather.h. */
#include "states/gather.h"

#include "channels/chan.h"
#include "states/shared_wait.h"

/* What Alt.shared points to: only its address is used. */
static const SharedWait held, awaits;

Gather *gather_push(lua_State *L, Sched *S, uint32_t n) {
  Gather *g = (Gather *)lua_newuserdatauv(L, sizeof *g + n * sizeof *g->ring, GATHER_HOLDER);
  *g = (Gather){.n = n};
  g->taker = chan_new(L, S, CHAN_UNBUFFERED_SIZE, CHAN_ATTRS);
  chan_hide(g->taker);
  lua_setiuservalue(L, -2, GATHER_TAKER);
  for (uint32_t i = 1; i <= n; i++) gather_add(g, i);
  if (!S->others) S->others = &shared_wait_others;
  return g;
}

void gather_hold(Gather *g, Alt *alt) {
  alt->shared = (SharedWait *)&held;
  g->holder = sched_go(alt);
}

void gather_await(Alt *alt) { alt->shared = (SharedWait *)&awaits; }

bool gather_is_waiting(const Alt *alt) { return alt->shared == &held || alt->shared == &awaits; }

bool gather_is_held(const Gather *g) {
  return g->holder && g->holder->alt.shared == &held && alt_is_active(&g->holder->alt);
}

Waiter *gather_claim(Waiter *w) {
  if (w->alt->shared == &awaits) {
    w->alt->shared = NULL;
    return w;
  }
  Gather *g = (Gather *)lua_touserdata(w->alt->co, GATHER_AT_HOLDER);
  uint32_t i = (uint32_t)(w - alt_waiters(w->alt)) + 1;
  OBSERVE(g->taker->sched, look, g->taker, LOOK_CHANNEL); /* which of two inputs comes first matters to the taker */
  alt_dequeue(w);
  Waiter *taker = chan_first_waiter(g->taker, TAKES);
  if (taker) g->current = i;
  else gather_add(g, i);
  return taker;
}

const Alt *gather_shown(const Alt *alt) {
  if (alt->shared != &awaits || !alt_is_active(alt)) return alt;
  const Gather *g = (const Gather *)lua_touserdata(alt->co, GATHER_AT_TAKER);
  return gather_is_held(g) ? &g->holder->alt : alt;
}
