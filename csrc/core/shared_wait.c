/* shared_wait.c: see shared_wait.h. */
#include "core/shared_wait.h"

#include <stdlib.h>

enum {
  FEW = 4,          /* operations for which there is room in any SharedWait */
  MOST_UNUSED = 256 /* that are kept to be used again */
};

SharedWait *shared_wait_new(Sharing *sharing, uint32_t n) {
  SharedWait *wait;
  if (sharing->unused && n <= FEW) {
    wait = shared_wait_of(sharing->unused);
    sharing->unused = wait->alt.arrival.next;
    sharing->nunused--;
  } else {
    uint32_t capacity = n > FEW ? n : FEW;
    size_t ops = capacity * sizeof(SharedWaiter);
    wait = (SharedWait *)malloc(sizeof *wait + ops + capacity * sizeof(SharedChan *));
    SharedReturn *given = (SharedReturn *)malloc(sizeof *given);
    if (!wait || !given) {
      free(wait);
      free(given);
      return NULL;
    }
    *wait = (SharedWait){.capacity = capacity, .given = given};
    wait->order = (SharedChan **)(void *)((char *)wait->ops + ops);
  }
  if (!wait->given && !(wait->given = (SharedReturn *)malloc(sizeof *wait->given))) {
    wait->n = 0; /* seldom covered: memory runs out */
    shared_wait_free(sharing, wait);
    return NULL;
  }
  wait->alt.owner = sharing->owner;
  wait->alt.arrival.next = NULL;
  wait->alt.result.value.kind = SHARED_NIL;
  wait->link.next = NULL;
  wait->local = NULL;
  wait->is_quiet = false;
  wait->watching = NULL;
  wait->done = NULL;
  wait->n = 0;
  return wait;
}

void shared_wait_free(Sharing *sharing, SharedWait *wait) {
  if (wait->link.next) list_remove(&sharing->waits, &wait->link);
  for (uint32_t i = 0; i < wait->n; i++) shared_value_drop(&wait->ops[i].value);
  shared_value_drop(&wait->alt.result.value);
  if (wait->capacity > FEW || sharing->nunused >= MOST_UNUSED) {
    free(wait->given);
    free(wait);
    return;
  }
  wait->alt.arrival.next = sharing->unused;
  sharing->unused = &wait->alt.arrival;
  sharing->nunused++;
}

bool shared_wait_withdraw(Sched *S, Alt *alt) {
  SharedWait *wait = alt->shared;
  if (shared_withdraw(&wait->alt)) {
    alt->shared = NULL;
    shared_wait_free(S->sharing, wait);
    return true;
  }
  return false;
}

void shared_wait_abandon(Sched *S, Alt *alt) {
  SharedWait *wait = alt->shared;
  if (shared_wait_withdraw(S, alt)) return;
  wait->local = NULL;
  alt->shared = NULL;
}

bool shared_wait_is_decided(const SharedWait *wait) { return atomic_load(&wait->alt.state) != SHARED_ACTIVE; }

bool shared_wait_is_elsewhere(const SharedWait *wait) {
  for (uint32_t i = 0; i < wait->n; i++) {
    if (shared_chan_holds(wait->ops[i].chan) > 1) return true;
  }
  return false;
}

bool shared_done_is_elsewhere(const Chan *done) {
  const SharedChan *shared = CONTAINER_OF(done, SharedDone, chan)->shared;
  return shared && shared_chan_holds(shared) > 1;
}

/* Whether another thread may complete it, and somebody here waits for that. */
static bool may_come(const SharedWait *wait) {
  if (wait->is_quiet || (!wait->local && !(wait->done && wait->done->ntakes))) return false;
  return shared_wait_is_elsewhere(wait);
}

bool shared_wait_is_alive(const Sched *S) {
  const Sharing *sharing = S->sharing;
  if (LIKELY(!sharing)) return false;
  Link *link = sharing->waits.first;
  if (link) {
    do {
      if (may_come(CONTAINER_OF(link, SharedWait, link))) return true;
      link = link->next;
    } while (link != sharing->waits.first);
  }
  return shared_wait_has_news(S); /* last: who has completed something may have let go of the channel after that */
}

/* ---- before sleeping ---- */

/* Looks at the inbox until something has come, which it returns, or it is so late. */
static bool spin_until(const Sched *S, int64_t until) {
  enum { PAUSES = 8 };
  Owner *owner = S->sharing->owner;
  do {
    for (int i = 0; i < PAUSES; i++) {
      if (!owner_is_empty(owner)) return true;
      PAUSE_BRIEFLY();
    }
  } while (clock_now(&S->world.clock) < until);
  return false;
}

/* Two threads that pass values to and fro in less than a microsecond need not sleep. But once both sleep each time, each
   is woken too late for the short spin of the other one: being woken takes 10 to 20 us. So a thread that has given up
   spinning tries a long spin after some sleeps, more and more seldom if that is in vain: on a busy machine it only takes
   time from the thread for which it waits. If something comes late in a long spin, the other thread sleeps; the next
   spins are long, too, until it has its own long spin. */
bool shared_wait_spin(const Sched *S, int64_t ns) {
  static const int64_t USUAL = 5000, SHORTEST = 300, LONG = 50000;
  enum {
    FEWEST = 16,
    MOST = 1024
  }; /* sleeps between two long spins; and FEWEST long ones, at most, one after another */
  Sharing *sharing = S->sharing;
  if (!sharing->waits.first) return false;
  bool is_long = sharing->spin < SHORTEST;
  if (is_long && sharing->until_spin) {
    sharing->until_spin--;
    return false;
  }
  int64_t most = is_long ? LONG : sharing->spin;
  if (ns >= 0 && ns < most) return false;
  int64_t start = clock_now(&S->world.clock);
  bool has_come = spin_until(S, start + most);
  bool is_late = is_long && clock_now(&S->world.clock) - start > USUAL;
  if (has_come && !is_late) {
    sharing->spin = USUAL;
    sharing->sleeps = FEWEST;
    sharing->late = 0;
  } else if (has_come && sharing->late++ < 2 * FEWEST) {
    sharing->spin = 0; /* a long one again */
  } else {
    sharing->spin = is_long ? 0 : sharing->spin / 2;
    sharing->late = 0;
    if (sharing->spin < SHORTEST) sharing->until_spin = sharing->sleeps;
    if (is_long && sharing->sleeps < MOST) sharing->sleeps = sharing->sleeps ? sharing->sleeps * 2 : FEWEST;
  }
  return has_come;
}
