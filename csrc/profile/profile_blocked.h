/* profile_blocked.h: what of the program blocks the thread: waits in a system call, so that no go block runs, such as
   os.execute or a library that waits for a socket.

   A signal must not find it out: it would end some of these system calls with EINTR. So a hook that Lua calls after
   each return of a function compares the time that has passed with the processor time of the thread. That slows down what
   runs; so the hook is set only while the thread computes for less than half of the time, or has begun to compute
   lately: not in a program that is busy.

   Without a profile there is no hook: it would cost too much to have one always. So Lua's own functions that block, and
   LuaSocket's, measure themselves (lua/state/blocking.c). They can also tell of a call that has not returned yet, but
   not of other libraries. */
#ifndef RUNNEL_PROFILE_BLOCKED_H
#define RUNNEL_PROFILE_BLOCKED_H

#include "profile/profile_state.h"

/* Whether the hook is to be called after each return. */
static inline bool profile_blocked_is_sought(const Profile *p) {
  return atomic_load_explicit(&p->busy, memory_order_relaxed) < p->patience;
}

/* Sets the mask of the profile's hook on a coroutine: `mask`, or if it is 0 what seeking needs. The hook of a program
   or a debugger stays. */
void profile_blocked_set_hook(const Profile *p, lua_State *co, int mask);

/* The coroutine is about to run. */
void profile_blocked_enter(Profile *p, lua_State *co);

/* A coroutine is about to be left: no hook of the profile must stay on it. */
void profile_blocked_leave(const Profile *p, lua_State *co);

/* A function has returned: for how long the thread has been blocked in it, in ns; 0: for less than a millisecond. */
int64_t profile_blocked_measure(Profile *p);

/* Called by the signal's handler, at the time `now`, when the thread has used `ns` more. */
void profile_blocked_tick(Profile *p, int64_t now, int64_t ns);

/* The scheduler waits from now on; it has waited. */
void profile_blocked_idle(Profile *p);
void profile_blocked_awake(Profile *p);

#endif
