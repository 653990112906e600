/* shared_wait.c: see shared_wait.h. */
#include "states/shared_wait.h"

#include <sched.h>
#include <stdlib.h>

#include "channels/chan.h"
#include "states/gather.h"

enum {
  FEW = 4,          /* operations for which there is room in any SharedWait */
  MOST_UNUSED = 256 /* that are kept to be used again */
};

SharedWait *shared_wait_new(Sharing *sharing, uint32_t n) {
  SharedWait *wait;
  shared_wait_busy(sharing);
  if (sharing->unused && n <= FEW) {
    wait = shared_wait_of(sharing->unused);
    sharing->unused = wait->alt.arrival.next;
    sharing->nunused--;
  } else {
    uint32_t capacity = n > FEW ? n : FEW;
    size_t ops = capacity * sizeof(SharedWaiter);
    wait = (SharedWait *)cache_new(sizeof *wait + ops + capacity * sizeof(SharedChan *));
    SharedReturn *given = (SharedReturn *)malloc(sizeof *given);
    if (!wait || !given) {
      cache_free(wait);
      free(given);
      return NULL;
    }
    wait->capacity = capacity;
    wait->given = given;
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
  wait->n = 0;
  return wait;
}

void shared_wait_free(Sharing *sharing, SharedWait *wait) {
  shared_wait_busy(sharing);
  if (wait->link.next) list_remove(&sharing->waits, &wait->link);
  for (uint32_t i = 0; i < wait->n; i++) shared_value_drop(&wait->ops[i].value);
  shared_value_drop(&wait->alt.result.value);
  if (wait->capacity > FEW || sharing->nunused >= MOST_UNUSED) {
    free(wait->given);
    cache_free(wait);
    return;
  }
  wait->alt.arrival.next = sharing->unused;
  sharing->unused = &wait->alt.arrival;
  sharing->nunused++;
}

bool shared_wait_withdraw(Sched *S, Alt *alt) {
  SharedWait *wait = alt->shared;
  /* Without a Sharing: it has ended, and has freed the wait of a handle whose finalizer was dropped. */
  if (gather_is_waiting(alt) || !S->sharing) {
    alt->shared = NULL;
    return true;
  }
  shared_wait_busy(S->sharing);
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
  /* seldom covered: another thread was faster */
  wait->local = NULL;
  alt->shared = NULL;
}

void shared_wait_give_back(SharedChan *shared, SharedValue *value, SharedReturn **given) {
  if (shared_chan_stats(shared).kind == BUFFER_PROMISE) {
    shared_value_drop(value); /* seldom covered: there was no memory for unpacking it */
    return;
  }
  SharedReturn *node = *given;
  *given = NULL;
  node->value = *value; /* NOLINT(clang-analyzer-core.NullDereference): it was set aside before the take */
  value->kind = SHARED_NIL;
  shared_give_back(shared, node);
}

void shared_wait_refuse(Sharing *sharing, SharedWait *wait) {
  SharedResult *result = &wait->alt.result;
  const SharedWaiter *op = &wait->ops[result->op];
  if (op->kind == SHARED_TAKE && result->ok && result->value.kind != SHARED_NIL) {
    /* seldom covered: it came as the take was withdrawn */
    shared_wait_give_back(op->chan, &result->value, &wait->given);
  }
  shared_wait_free(sharing, wait);
}

bool shared_wait_is_decided(const SharedWait *wait) { return atomic_load(&wait->alt.state) != SHARED_ACTIVE; }

/* Whether another state has one of the channels, or a value that is under way has a reference to one. */
static bool is_elsewhere(const SharedWait *wait) {
  for (uint32_t i = 0; i < wait->n; i++) {
    if (shared_chan_holds(wait->ops[i].chan) > 1) return true;
  }
  return false;
}

static bool may_close(const Chan *done) {
  const SharedChan *shared = CONTAINER_OF(done, SharedDone, chan)->shared;
  return done->sched->sharing && shared && shared_chan_holds(shared) > 1;
}

/* The holds first: a thread may complete an operation and then drop its hold on the channel. */
static bool is_open(const Sched *S, const Alt *alt) {
  return S->sharing && !gather_is_waiting(alt) && (is_elsewhere(alt->shared) || shared_wait_is_decided(alt->shared));
}

static Waiter *claim(Sched *S, Waiter *w) {
  if (gather_is_waiting(w->alt)) return gather_claim(w);
  if (shared_wait_withdraw(S, w->alt)) return w;
  /* seldom covered: another thread has just completed the alt */
  alt_dequeue(w);
  return NULL;
}

const Others shared_wait_others = {
    .claim = claim, .shown = gather_shown, .abandon = shared_wait_abandon, .is_open = is_open, .may_close = may_close};

void shared_wait_push_part(lua_State *L, int part) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_SHARING);
  lua_getiuservalue(L, -1, part);
  lua_replace(L, -2);
}

SharedHandle *shared_wait_push_handle(lua_State *L, const SharedHold *hold) {
  shared_wait_push_part(L, SHARED_HANDLES);
  int type = lua_rawgetp(L, -1, hold->chan);
  lua_replace(L, -2);
  if (type == LUA_TUSERDATA) {
    SharedHandle *h = CONTAINER_OF((Chan *)lua_touserdata(L, -1), SharedHandle, chan);
    if (h->hold == hold) return h;
  }
  /* seldom covered: see end_sharing */
  lua_pushnil(L); /* there is none, or a newer one */
  lua_replace(L, -2);
  return NULL;
}

/* Whether a take waits on the done() channel of a watch's handle. */
static bool is_done_awaited(lua_State *L, const SharedHold *hold) {
  if (!lua_checkstack(L, LUA_MINSTACK)) return true;
  int top = lua_gettop(L);
  const SharedHandle *h = shared_wait_push_handle(L, hold);
  bool is_awaited = h && h->done && h->done->waiting[TAKES];
  lua_settop(L, top);
  return is_awaited;
}

/* Whether another thread may complete a wait in which an alt of this state still waits. */
static bool may_come(lua_State *L, const SharedWait *wait) {
  if (wait->is_quiet || !is_elsewhere(wait)) return false;
  return wait->local || (wait->watching && is_done_awaited(L, wait->watching));
}

bool shared_wait_is_alive(lua_State *L, const Sched *S) {
  const Sharing *sharing = S->sharing;
  if (LIKELY(!sharing)) return false;
  for (Link *link = sharing->waits.first; link; link = list_next(&sharing->waits, link)) {
    if (may_come(L, CONTAINER_OF(link, SharedWait, link))) return true;
  }
  return shared_wait_has_news(S); /* last: a thread may complete an operation and then drop its hold */
}

/* ---- before sleeping ---- */

bool shared_wait_spin(const Sched *S, int64_t ns) {
  enum { LOOKS = 8 }; /* between two looks at the clock */
  Sharing *sharing = S->sharing;
  if (!sharing->waits.first) return false;
  SpinTime time = spin_begin(&sharing->spin, sharing->has_woken);
  if (time.ns == 0 || (ns >= 0 && ns < time.ns)) return false;
  int64_t until = clock_now(&S->world.clock) + time.ns;
  bool has_come = false;
  do {
    for (int i = 0; i < LOOKS && !has_come; i++) {
      has_come = !owner_is_empty(sharing->owner);
      PAUSE_BRIEFLY();
    }
    if (time.lets_others_run && !has_come) (void)sched_yield();
  } while (!has_come && clock_now(&S->world.clock) < until);
  spin_end(&sharing->spin, has_come);
  return has_come;
}
