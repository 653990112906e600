/* watch.h: how another thread of the process looks at a scheduler: the monitor's page (csrc/monitor), for one.

   The other thread must not touch Lua or the scheduler. It asks, and the scheduler's loop then calls the watcher, a Lua
   function, between two resumes: at the next look at the clock, which is at most a millisecond away while go blocks run
   and park, or at once when the loop waits. A watch is no reason to wait: a program that has nothing else to wait for
   ends, and a deadlock is a deadlock. The watcher may not wait, and appears in no list.

   The module that has the other thread is a library of its own and cannot link to the core. So it calls the core
   through the struct. */
#ifndef RUNNEL_CORE_WATCH_H
#define RUNNEL_CORE_WATCH_H

#include <stdatomic.h>

#include "core/state.h"

/* Increases with each change of Watch and of the structs in snapshot.h. */
enum { WATCH_RELEASE = 2 };

/* A userdata; whoever has a thread that uses it keeps it alive until that thread has ended. */
typedef struct Watch {
  uint32_t release;                 /* WATCH_RELEASE of the core, which the module checks */
  void (*ask)(struct Watch *watch); /* makes the loop call the watcher soon. Any thread, but no signal handler */
  struct Wakeup *wakeup;            /* the scheduler's, held */
  atomic_bool asked;                /* the watcher is to be called */
  _Atomic int64_t waited;           /* how long the loop has waited in the driver since the watch began, in ns */
  _Atomic int64_t waiting;          /* since when it waits now, as clock_now says; 0: it does not */
} Watch;

/* Calls the watcher. An error of it is dropped. */
void watch_call(lua_State *L, Sched *S);

/* Calls the watcher if another thread has asked for it; to be called often. */
static inline void watch_look(lua_State *L, Sched *S) {
  if (UNLIKELY(S->watch) && atomic_load_explicit(&S->watch->asked, memory_order_relaxed)) watch_call(L, S);
}

/* Begins a watch with the function at index `f`, and pushes its Watch. Raises if there is one already. */
void watch_begin(lua_State *L, Sched *S, int f);

/* Ends the watch, if there is one. */
void watch_end(lua_State *L, Sched *S);

/* The loop begins and ends a wait in the driver. */
void watch_wait_begins(Sched *S);
void watch_wait_ends(Sched *S);

#endif
