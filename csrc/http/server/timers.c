/* timers.c: see timers.h. */
#include "http/server/timers.h"

void timers_remove(Timers *timers, SlotTimer *timer) {
  if (!timer->link.next) return;
  List *slot = &timers->slots[timer->slot];
  list_remove(slot, &timer->link);
  timers->n--;
}

void timers_set(Timers *timers, SlotTimer *timer, int64_t due) {
  int64_t tick = timers_tick(due) + 1, last = timers->tick + TIMER_SLOTS - 1;
  if (tick > last) tick = last;
  if (tick <= timers->tick) tick = timers->tick + 1;
  if (timer->link.next && timer->tick <= tick) return;
  timers_remove(timers, timer);
  timer->tick = tick;
  timer->slot = (int)(tick % TIMER_SLOTS);
  list_append(&timers->slots[timer->slot], &timer->link);
  timers->n++;
}

SlotTimer *timers_take(Timers *timers, int64_t now) {
  int64_t last = timers_tick(now);
  if (timers->n == 0) timers->tick = last;
  while (timers->tick < last) {
    Link *first = timers->slots[(timers->tick + 1) % TIMER_SLOTS].first;
    if (first) {
      SlotTimer *timer = CONTAINER_OF(first, SlotTimer, link);
      timers_remove(timers, timer);
      return timer;
    }
    timers->tick++;
  }
  return NULL;
}

int64_t timers_due(const Timers *timers) {
  if (timers->n == 0) return INT64_MAX;
  int64_t tick = timers->tick + 1;
  while (!timers->slots[tick % TIMER_SLOTS].first) tick++;
  return tick * TIMER_TICK;
}
