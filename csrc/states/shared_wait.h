/* shared_wait.h: an alt that waits on shared channels (csrc/shared), alone or besides local ones.

   Its operations on shared channels are in a SharedWait, whose SharedAlt other threads may complete at any time. In the
   queue of each handle (shared_ops.h) there is also a Waiter of the alt. It is never completed: it shows the rest of
   the core, which knows only local channels, what the alt waits on.

   Two threads may try to complete such an alt: this scheduler, by an operation on a local channel, a timer or a cancel;
   and another thread. The first to claim the SharedAlt succeeds. So before this scheduler completes the alt or makes it
   stop waiting, it must withdraw it from its shared channels (shared_wait_withdraw). If that fails, another thread has
   completed it: the result is in the scheduler's inbox, or will be soon, and stands. */
#ifndef RUNNEL_SHARED_WAIT_H
#define RUNNEL_SHARED_WAIT_H

#include "core/others.h"
#include "core/state.h"
#include "shared/shared_alt.h"
#include "shared/spin.h"
#include "states/pack.h"

typedef struct SharedHold SharedHold;

typedef struct SharedWait {
  SharedAlt alt;        /* what other threads see */
  Link link;            /* in Sharing.waits, unless it is in no list */
  Alt *local;           /* the alt that waits; NULL for a watch, and once the alt has stopped waiting */
  bool is_quiet;        /* Operation.is_quiet */
  SharedHold *watching; /* the hold of a watch (shared_inbox_watch), else NULL */
  SharedReturn *given;  /* memory for giving back a value that cannot be delivered */
  SharedChan **order;   /* room for one channel an operation (shared_do) */
  uint32_t capacity;    /* operations that there is room for */
  uint32_t n;           /* operations */
  _Alignas(CACHE_LINE) SharedWaiter ops[]; /* the operations */
} SharedWait;

/* The done() channel of a handle. Its user value CHAN_VALUES keeps the handle alive, since another state may close the
   shared channel while a take waits on this one. */
typedef struct SharedDone {
  Chan chan;          /* with CHAN_DONE_SHARED */
  SharedChan *shared; /* the channel; NULL once the handle has been finalized */
} SharedDone;

/* A state's hold on a shared channel. Its memory is not part of the handle: Lua drops a finalizer for which a stack
   that has overflowed has no room, and frees the handle while its hold is still in the list. So a hold does not point
   to its handle, which is found by the weak table SHARED_HANDLES (shared_wait_push_handle). */
struct SharedHold {
  Link link;         /* in Sharing.holds */
  SharedChan *chan;  /* the channel */
  SharedWait *watch; /* tells when it is closed (shared_inbox_watch), or NULL */
};

/* A handle, by which a state uses a shared channel (shared_handle.h). */
typedef struct SharedHandle {
  Chan chan;        /* what the rest of the core sees; its queues have the waiters of this state */
  SharedHold *hold; /* on the channel; NULL once the handle has been finalized */
  const Chan *done; /* its done() channel, or NULL; each of the two keeps the other alive */
} SharedHandle;

typedef struct Member Member; /* family.h */
typedef void GoOn(struct Sharing *sharing);

/* The state of a scheduler's shared channels: a userdata, made with the first of them. */
typedef struct Sharing {
  Owner *owner;        /* the scheduler as other threads see it */
  List holds;          /* SharedHold.link of its handles */
  List waits;          /* SharedWait.link of waits that other threads may complete, or have completed */
  Arrival *arrived;    /* completed alts out of the inbox, the oldest first */
  Arrival *unused;     /* SharedWaits to be used again */
  uint32_t nunused;    /* how many */
  SharedReturn *given; /* memory for giving back a value that was taken at once and cannot be unpacked; or NULL */
  Packer packer;       /* memory for packing */
  Spin spin;           /* how long to look at the inbox before sleeping */
  bool has_woken;      /* the last operation has woken another thread */
  uint32_t number;     /* of the value that was put or taken last (SharedResult), for a trace */
  Member *member;      /* its place in its family of threads (family.h), or NULL */
  GoOn *go_on;         /* not NULL while idle: other threads may look at this (family.h); shared_wait_busy calls it */
  int64_t patience;    /* of the first member: how long it waits before it looks for a deadlock, in ns */
  bool is_quiet;       /* the last wait for other threads has ended without news */
} Sharing;

/* User values of the Sharing. */
enum {
  SHARED_HANDLES = 1, /* weak table: the address of a shared channel -> its handle */
  SHARED_UNPACK       /* C function: (light userdata of a SharedValue) -> the value */
};

/* Pushes a user value of the Sharing. */
void shared_wait_push_part(lua_State *L, int part);

/* Pushes the handle of a hold and returns it, or pushes nil and returns NULL if nothing can reach the handle any more.
   Needs LUA_MINSTACK free slots; does not raise. */
SharedHandle *shared_wait_push_handle(lua_State *L, const SharedHold *hold);

/* To be called before the lists of handles or of waits change. Other threads look at these lists while this state is
   idle: it notes that the state continues, or that its driver uses a shared channel. */
static inline void shared_wait_busy(Sharing *sharing) {
  if (UNLIKELY(sharing->go_on != NULL)) sharing->go_on(sharing);
}

/* The SharedWait of a member of such a list. */
static inline SharedWait *shared_wait_of(Arrival *arrival) { return CONTAINER_OF(arrival, SharedWait, alt.arrival); }

/* A SharedWait with room for `n` operations, which the caller adds; NULL if there is no memory. */
SharedWait *shared_wait_new(Sharing *sharing, uint32_t n);

/* Drops its values and frees it. No other thread may refer to it. */
void shared_wait_free(Sharing *sharing, SharedWait *wait);

/* Withdraws an alt, which has a SharedWait, from its shared channels and returns true. Returns false if another thread
   has completed it; the result is then in the inbox (shared_inbox_drain). */
bool shared_wait_withdraw(Sched *S, Alt *alt);

/* Makes an alt, which has a SharedWait, stop waiting on its shared channels, whatever other threads have done. A value
   that has come for it goes back to its channel. */
void shared_wait_abandon(Sched *S, Alt *alt);

/* Gives a value that was taken back to its channel, with the memory in *given that was set aside for that. */
void shared_wait_give_back(SharedChan *shared, SharedValue *value, SharedReturn **given);

/* Ends a wait that another thread has completed and whose alt has stopped waiting: gives its value back. */
void shared_wait_refuse(Sharing *sharing, SharedWait *wait);

/* The core's functions for such alts. */
extern const Others shared_wait_others;

/* Whether it has been completed or withdrawn. */
bool shared_wait_is_decided(const SharedWait *wait);

/* Whether another thread may complete a wait of this state. Does not raise. */
bool shared_wait_is_alive(lua_State *L, const Sched *S);

/* Whether another thread has completed a wait that the scheduler has not handled yet. */
static inline bool shared_wait_has_news(const Sched *S) {
  return UNLIKELY(S->sharing) && (S->sharing->arrived || !owner_is_empty(S->sharing->owner));
}

/* Looks at the inbox for a short time (spin.h), if any alt waits and the next deadline, in `ns` unless negative, is not
   earlier. Returns whether a result has come. */
bool shared_wait_spin(const Sched *S, int64_t ns);

/* Notes that the scheduler is about to sleep, or leaves its loop: other threads signal the wakeup from here on. Returns
   false if a result has come meanwhile: the scheduler must handle it first. */
static inline bool shared_wait_sleep(const Sched *S) { return LIKELY(!S->sharing) || owner_sleep(S->sharing->owner); }

/* Notes that the scheduler has looked at the clock, for other threads that look at what it does (status.h). */
static inline void shared_wait_looked(const Sched *S, int64_t now) {
  if (UNLIKELY(S->sharing) && !S->world.clock.is_virtual) owner_looked(S->sharing->owner, now);
}

/* Notes that the scheduler is awake: it looks at its inbox without a wakeup. */
static inline void shared_wait_awake(const Sched *S) {
  if (UNLIKELY(S->sharing)) owner_awake(S->sharing->owner);
}

#endif
