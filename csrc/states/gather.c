/* gather.c: see gather.h. */
#include "states/gather.h"

#include "channels/chan.h"

/* What Alt.shared points to while a holder, or a taker, waits: only their addresses are used. */
static const Alt held, awaits;

static bool has_mark(const Alt *alt, const Alt *mark) { return (const void *)alt->shared == (const void *)mark; }

static void set_mark(Alt *alt, const Alt *mark) { alt->shared = (struct SharedWait *)(uintptr_t)mark; }

Gather *gather_to(lua_State *L, int i) {
  Gather *g = (Gather *)lua_touserdata(L, i);
  return g && lua_rawlen(L, i) >= sizeof *g && g->tag == &held ? g : NULL;
}

Gather *gather_push(lua_State *L, Sched *S, uint32_t n) {
  Gather *g = (Gather *)lua_newuserdatauv(L, sizeof *g + n * sizeof *g->ring, GATHER_HOLDER);
  *g = (Gather){.tag = &held, .n = n};
  g->taker = chan_new(L, S, CHAN_UNBUFFERED_SIZE, CHAN_ATTRS);
  chan_hide(g->taker);
  lua_setiuservalue(L, -2, GATHER_TAKER);
  for (uint32_t i = 1; i <= n; i++) gather_add(g, i);
  return g;
}

void gather_hold(Gather *g, Alt *alt) {
  set_mark(alt, &held);
  g->holder = sched_go(alt);
}

void gather_await(Alt *alt) { set_mark(alt, &awaits); }

bool gather_is_waiting(const Alt *alt) { return has_mark(alt, &held) || has_mark(alt, &awaits); }

bool gather_is_held(const Gather *g) {
  return g->holder && has_mark(&g->holder->alt, &held) && alt_is_active(&g->holder->alt);
}

/* The Gather of a holder's waiter. */
static Gather *of_waiter(const Waiter *w) { return (Gather *)lua_touserdata(w->alt->co, GATHER_AT_HOLDER); }

/* The number of its input. */
static uint32_t number_of(const Waiter *w) { return (uint32_t)(w - alt_waiters(w->alt)) + 1; }

bool gather_is_out(const Waiter *w) { /* uncovered: for assertions (tests/invariants.c) */
  if (!has_mark(w->alt, &held)) return false;
  const Gather *g = of_waiter(w);
  uint32_t i = number_of(w);
  bool is_out = g->current == i || chan_is_closed(w->chan);
  for (uint32_t k = 0; k < g->count; k++) is_out = is_out || g->ring[(g->first + k) % g->n] == i;
  return is_out;
}

Waiter *gather_claim(Waiter *w) {
  if (has_mark(w->alt, &awaits)) {
    w->alt->shared = NULL;
    return w;
  }
  Gather *g = of_waiter(w);
  uint32_t i = number_of(w);
  OBSERVE(g->taker->sched, look, g->taker, LOOK_CHANNEL); /* which of two inputs comes first matters to the taker */
  alt_dequeue(w);
  Waiter *taker = chan_first_waiter(g->taker, TAKES);
  if (taker) g->current = i;
  else gather_add(g, i);
  return taker;
}

const Alt *gather_shown(const Alt *alt) {
  if (!has_mark(alt, &awaits) || !alt_is_active(alt)) return alt;
  const Gather *g = (const Gather *)lua_touserdata(alt->co, GATHER_AT_TAKER);
  return gather_is_held(g) ? &g->holder->alt : alt;
}
