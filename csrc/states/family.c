/* family.c: see family.h. */
#include "states/family.h"

#include <pthread.h>

#include "base/grow.h"

struct Family {
  pthread_mutex_t lock; /* guards what follows, but for `holds`, and the members */
  List members;         /* Member.link */
  atomic_uint holds;    /* of members, and of the thread that makes it */
};

/* ---- members ---- */

Member *family_add(Family *family, SharedChan *const chans[MEMBER_CHANS]) {
  Member *member = (Member *)calloc(1, sizeof *member);
  if (!member) return NULL;
  member->family = family;
  for (int i = 0; chans && i < MEMBER_CHANS; i++) member->chans[i] = chans[i];
  (void)pthread_mutex_lock(&family->lock);
  atomic_fetch_add_explicit(&family->holds, 1, memory_order_relaxed);
  list_append(&family->members, &member->link);
  (void)pthread_mutex_unlock(&family->lock);
  return member;
}

static void release(Family *family) {
  if (atomic_fetch_sub(&family->holds, 1) > 1) return;
  (void)pthread_mutex_destroy(&family->lock);
  free(family);
}

Member *family_new(void) {
  Family *family = (Family *)calloc(1, sizeof *family);
  if (!family) return NULL;
  atomic_init(&family->holds, 1);
  (void)pthread_mutex_init(&family->lock, NULL);
  Member *first = family_add(family, NULL);
  if (first) first->is_first = true;
  release(family);
  return first;
}

void family_leave(Member *member) {
  Family *family = member->family;
  (void)pthread_mutex_lock(&family->lock);
  list_remove(&family->members, &member->link);
  (void)pthread_mutex_unlock(&family->lock);
  free(member);
  release(family);
}

static void set_idle(Member *member, const Sharing *sharing) {
  (void)pthread_mutex_lock(&member->family->lock);
  member->is_idle = sharing != NULL;
  member->sharing = sharing;
  (void)pthread_mutex_unlock(&member->family->lock);
}

/* Sharing.go_on */
static void go_on(Sharing *sharing) {
  sharing->go_on = NULL;
  set_idle(sharing->member, NULL);
}

/* ---- what a member waits for ---- */

static Member *member_of(Link *link) { return CONTAINER_OF(link, Member, link); }

/* Whether the state has a handle of the channel. */
static bool has(const Sharing *sharing, const SharedChan *chan) {
  for (Link *link = sharing->holds.first; link; link = list_next(&sharing->holds, link)) {
    if (CONTAINER_OF(link, SharedHold, link)->chan == chan) return true;
  }
  return false;
}

/* See family_waits. */
static uint32_t list_waits(const Sharing *own, const Sharing *sharing, MemberWait *waits, uint32_t most) {
  uint32_t n = 0;
  for (Link *link = sharing->waits.first; link; link = list_next(&sharing->waits, link)) {
    const SharedWait *wait = CONTAINER_OF(link, SharedWait, link);
    for (uint32_t i = 0; wait->local && i < wait->n; i++) {
      const SharedWaiter *op = &wait->ops[i];
      if (has(own, op->chan) || n++ >= most) continue;
      waits[n - 1].is_put = op->kind == SHARED_PUT;
      shared_chan_get_name(op->chan, waits[n - 1].name);
    }
  }
  return n;
}

uint32_t family_waits(const Sharing *own, const Owner *owner, MemberWait *waits, uint32_t most) {
  if (!own->member) return 0;
  Family *family = own->member->family;
  uint32_t n = 0;
  (void)pthread_mutex_lock(&family->lock);
  for (Link *link = family->members.first; link; link = list_next(&family->members, link)) {
    const Member *member = member_of(link);
    if (member->is_idle && member->sharing->owner == owner) n = list_waits(own, member->sharing, waits, most);
  }
  (void)pthread_mutex_unlock(&family->lock);
  return n;
}

/* ---- finding a deadlock ---- */

/* The channels of members that may be stuck, ordered by address: one entry for each member and hold. */
typedef struct Held {
  SharedChan **chans;
  size_t n;
  size_t capacity;
} Held;

static bool add(Held *held, SharedChan *chan) {
  if (!chan) return true;
  SharedChan **chans = (SharedChan **)grow((void *)held->chans, &held->capacity, held->n + 1, sizeof(SharedChan *));
  if (!chans) return false;
  held->chans = chans;
  held->chans[held->n++] = chan;
  return true;
}

static bool add_all(Held *held, const Member *member) {
  for (int i = 0; i < MEMBER_CHANS; i++) {
    if (!add(held, member->chans[i])) return false;
  }
  const List *holds = &member->sharing->holds;
  for (Link *link = holds->first; link; link = list_next(holds, link)) {
    if (!add(held, CONTAINER_OF(link, SharedHold, link)->chan)) return false;
  }
  return true;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (SharedChan *const *)a, y = (uintptr_t) * (SharedChan *const *)b;
  return (x > y) - (x < y);
}

/* The number of holds on this channel. */
static uint32_t count(const Held *held, const SharedChan *chan) {
  size_t low = 0, high = held->n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)held->chans[middle] < (uintptr_t)chan) low = middle + 1;
    else high = middle;
  }
  uint32_t n = 0;
  for (; low < held->n && held->chans[low] == chan; low++) n++;
  return n;
}

/* Whether only members that may be stuck, which own all holds in `held`, could complete what this member waits for.
   Counts the holds before it looks at results: a thread may complete an operation and then drop its hold. */
static bool cannot_go_on(const Member *member, const Held *held) {
  const Sharing *sharing = member->sharing;
  for (Link *link = sharing->waits.first; link; link = list_next(&sharing->waits, link)) {
    const SharedWait *wait = CONTAINER_OF(link, SharedWait, link);
    for (uint32_t i = 0; i < wait->n; i++) {
      if (shared_chan_holds(wait->ops[i].chan) != count(held, wait->ops[i].chan)) return false;
    }
    if (shared_wait_is_decided(wait)) return false;
  }
  return !sharing->arrived && owner_is_empty(sharing->owner);
}

/* Clears is_stuck of members that can still continue. Returns false if the first member is one of them. */
static bool narrow(const Family *family, Member *first, Held *held) {
  const List *members = &family->members;
  for (bool is_over = false; !is_over;) {
    is_over = true;
    held->n = 0;
    for (Link *link = members->first; link; link = list_next(members, link)) {
      if (member_of(link)->is_stuck && !add_all(held, member_of(link))) return false;
    }
    if (held->n) qsort((void *)held->chans, held->n, sizeof(SharedChan *), by_address);
    if (!cannot_go_on(first, held)) return false;
    for (Link *link = members->first; link; link = list_next(members, link)) {
      Member *member = member_of(link);
      if (member->is_stuck && !cannot_go_on(member, held)) member->is_stuck = is_over = false;
    }
  }
  return true;
}

/* Whether the first member, which is idle, is part of a deadlock. */
static bool is_stuck(Member *first) {
  Family *family = first->family;
  Held held = {0};
  (void)pthread_mutex_lock(&family->lock);
  for (Link *link = family->members.first; link; link = list_next(&family->members, link)) {
    member_of(link)->is_stuck = member_of(link)->is_idle;
  }
  bool is_part = narrow(family, first, &held);
  (void)pthread_mutex_unlock(&family->lock);
  free((void *)held.chans);
  return is_part;
}

/* ---- waiting ---- */

/* How long the first member waits before it looks, in ns: SHORTEST at first, then twice as long each time. */
static const int64_t SHORTEST = 100 * CLOCK_MS, LONGEST = 1000 * CLOCK_MS;

int64_t family_wait_begins(Sharing *sharing) {
  sharing->go_on = go_on;
  set_idle(sharing->member, sharing);
  if (sharing->patience < SHORTEST) sharing->patience = SHORTEST;
  return sharing->member->is_first ? sharing->patience : -1;
}

bool family_wait_ends(Sharing *sharing, bool is_over) {
  is_over = is_over || !sharing->go_on;
  bool is_part = !is_over && sharing->member->is_first && is_stuck(sharing->member);
  sharing->patience = is_over ? 0 : sharing->patience < LONGEST / 2 ? sharing->patience * 2 : LONGEST;
  shared_wait_busy(sharing);
  return is_part;
}
