/* profile_state.h: the state of a profile (profile.h), for the files that make it. */
#ifndef RUNNEL_PROFILE_STATE_H
#define RUNNEL_PROFILE_STATE_H

#include <stdatomic.h>

#include "core/observe.h"
#include "profile/profile_timer.h"
#include "profile/profile_tree.h"

enum { PROFILE_MOST_WAITS = 64 }; /* waits whose go blocks have been woken, but have not run */

typedef struct Profile {
  Observer observer;       /* on SEAT_PROFILE. First */
  Sched *S;                /* the scheduler */
  lua_State *main_thread;  /* the main thread of the state */
  lua_State *waits;        /* what has called the loop, and waits until it returns; or NULL */
  int64_t waits_since;     /* since when, in ns of the loop's clock, as all times here */
  int64_t began;           /* when the profile began */
  int64_t step;            /* a wait is recorded once `owed` has reached this */
  uint64_t random;         /* the state of the random generator of steps */
  int64_t owed;            /* ns of waiting that no recorded wait stands for yet */
  int64_t waited;          /* ns of waiting so far */
  int64_t ran;             /* ns of Lua code in the tree */
  bool is_idle;            /* the scheduler waits */
  volatile bool is_ahead;  /* the scheduler waits, or a signal has come since the loop's last look at its clock */
  volatile bool is_adding; /* a sample is being added: its time is not the program's */
  const Alt *ended;        /* of the go block that has ended in its last run: it may be collected */
  _Atomic int64_t ticked;  /* when the signal came last, or something that blocked the thread was over */
  _Atomic int64_t due;     /* ns that the hook will record */
  _Atomic int64_t loop;    /* ns in which the scheduler has run, not Lua code */
  ProfileTimer timer;      /* the signal */
  lua_Hook hook;           /* the profile's hook */
  int64_t blocked;         /* ns in which the program has blocked the thread (profile_blocked.h), as far as is known */
  int64_t returned;        /* when a function has returned last, while that is sought */
  ThreadUse use;           /* of the thread, at that time or earlier */
  _Atomic int64_t signalled; /* when the signal came last; `ticked` may be later */
  atomic_bool is_late;       /* a signal has come since `use` was read, which is read again */
  int64_t idle_since;        /* when the scheduler began its last wait */
  int64_t patience;          /* once `busy` has reached this, what blocks is not sought */
  _Atomic int64_t busy;      /* signals in a row between which the thread has computed for more than half of the time */
  _Atomic int64_t idled;     /* ns that the scheduler has waited since the last signal */
  uint32_t nwaits;           /* how many there are in `list` */
  ProfileWait list[PROFILE_MOST_WAITS]; /* recorded waits whose stack is read just before the go block runs again */
} Profile;

/* Its address is the registry's key of the profile. */
extern const char profile_key;

/* The functions of Profile.observer (profile_waits.c). */
extern const Observer profile_observer;

/* The profile of the scheduler, or NULL. */
static inline Profile *profile_active(const Sched *S) { return (Profile *)(uintptr_t)S->seats[SEAT_PROFILE]; }

/* Adds a sample; its go block's userdata, or nil, is on top of L, and popped. Does not raise: if memory runs out, the
   sample is lost. */
void profile_add(lua_State *L, const ProfileSample *s);

#endif
