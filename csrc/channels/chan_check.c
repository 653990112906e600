/* chan_check.c: asserts the invariants of a channel (chan.h) after each operation of a debug build. */
#include "channels/chan.h"

#ifdef RUNNEL_DEBUG
#include <assert.h>

/* Checks the length of a queue, and that every waiter in it is active. */
static void check_queue(const Chan *ch, bool is_put) {
  const List *queue = &ch->queues[is_put];
  uint32_t n = 0;
  for (const Link *link = queue->first; link; link = list_next(queue, link)) {
    const Waiter *w = CONTAINER_OF(link, const Waiter, link);
    assert(w->chan == ch && w->is_put == is_put);
    assert(w->alt->state == ALT_PARKED && w->alt->count > 0);
    assert(link->next->prev == link);
    n++;
  }
  assert(n == ch->waiting[is_put]);
}

/* Whether the two queues hold only the two sides of one alts. */
static bool same_alt(const Chan *ch) {
  const Alt *alt = CONTAINER_OF(ch->queues[PUTS].first, const Waiter, link)->alt;
  for (int i = 0; i < 2; i++) {
    for (const Link *link = ch->queues[i].first; link; link = list_next(&ch->queues[i], link)) {
      if (CONTAINER_OF(link, const Waiter, link)->alt != alt) return false;
    }
  }
  return true;
}

void chan_check(const Chan *ch) {
  uint32_t nputs = ch->waiting[PUTS], ntakes = ch->waiting[TAKES];
  check_queue(ch, PUTS);
  check_queue(ch, TAKES);
  if (chan_is_shared(ch)) return; /* the results of some waiters may be in the inbox */
  assert(!(nputs && ntakes) || same_alt(ch));
  assert(!((ch->flags & CHAN_CLOSED) && ntakes));
  if (chan_ops(ch) && !ch->ops->is_checked(ch)) return;
  assert(!(ntakes && buffer_count(&ch->buf)) && (!nputs || buffer_full(&ch->buf)));
  assert(ch->buf.kind == BUFFER_NONE || (ch->buf.count <= ch->buf.size && ch->buf.count <= ch->buf.limit));
}
#endif
