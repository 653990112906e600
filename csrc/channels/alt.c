/* alt.c: see alt.h. */
#include "channels/alt.h"

/* Removes a sleeping or ready alt from a world's timers or run queue. Returns false if it is in another world. */
static bool leave_world(World *w, Alt *alt) {
  if (alt->state == ALT_SLEEPING) return heap_remove(&w->heap, &alt->own.timer);
  for (Link *link = w->ready.first; link; link = list_next(&w->ready, link)) {
    if (link != &alt->own.waiter.link) continue;
    list_remove(&w->ready, link);
    w->nready--;
    return true;
  }
  return false;
}

void alt_stop_waiting(Sched *S, Alt *alt) {
  alt_withdraw(alt);
  if (UNLIKELY(alt->shared)) S->others->abandon(S, alt);
  if (alt->state == ALT_SLEEPING || (alt->state == ALT_READY && alt != &S->outside)) {
    World *w = &S->world;
    while (w && !leave_world(w, alt)) w = w->outer;
  }
  alt->state = ALT_IDLE;
}

void alt_drop_first(Chan *ch, bool is_put) {
  Waiter *w = CONTAINER_OF(ch->queues[is_put].first, Waiter, link);
  Alt *alt = w->alt;
  if (alt->flags & ALT_WEAK) {
    alt_dequeue(w); /* seldom covered: other code has closed the coroutine of a weak root */
    return;
  }
  alt_stop_waiting(ch->sched, alt);
  alt_wake(ch->sched, alt, 0);
}
