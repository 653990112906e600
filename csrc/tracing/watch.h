/* watch.h: lets another thread of the process look at a scheduler, such as the monitor's server (csrc/monitor); and
   measures, for rn.metrics, how long the loop waits and computes.

   The other thread must not touch Lua or the scheduler. It asks, and the scheduler's loop then calls the watcher, a Lua
   function, between two resumes: at the next look at the clock, which comes within a millisecond while go blocks run
   and park, or at once when the loop waits. A watch does not keep the loop waiting: a program that waits for nothing
   else ends, and a deadlock is reported. The watcher must not park. No list of go blocks shows it.

   The module that has the other thread is a library of its own and cannot link to the core, so it calls the core
   through this struct. */
#ifndef RUNNEL_CORE_WATCH_H
#define RUNNEL_CORE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "tracing/trace_state.h"

/* Increases with each change of Watch and of the structs in snapshot.h. */
enum { WATCH_RELEASE = 6 };

/* A userdata. The module keeps it alive until the thread that uses it has ended. */
typedef struct Watch {
  uint32_t release;                 /* WATCH_RELEASE of the core, which the module checks */
  void (*ask)(struct Watch *watch); /* makes the loop call the watcher soon. Any thread, but no signal handler */
  /* Copies the name of what runs now: of a go block, whose id it returns (the low 32 bits), or with 0 of the main
     program; an empty name if nothing runs. Any thread. Only as long as the trace counts or records. */
  uint32_t (*running)(struct Watch *watch, char *name, size_t room);
  struct Wakeup *wakeup;    /* the scheduler's, held; NULL without another thread */
  atomic_bool asked;        /* the watcher is to be called */
  _Atomic int64_t waited;   /* how long the loop has waited in the driver since the watch began, in ns */
  _Atomic int64_t waiting;  /* when its present wait began, by clock_now; 0: it does not wait */
  bool is_measured;         /* rn.metrics is on */
  int64_t turned;           /* when the present turn began, in ns; 0: unknown */
  int64_t longest;          /* the longest turn since watch_longest was called last, in ns */
  int64_t peak;             /* the same for watch_peak */
  const TraceRunning *runs; /* what runs (trace.h), or NULL */
  pthread_mutex_t mutex;    /* guards the names */
  char **names;             /* the names of labels from TRACE_FIRST on; NULL: there was no memory */
  uint32_t nnames;          /* how many */
  int64_t blocked;          /* what watch_blocked has counted, in ns */
  int64_t idle;             /* when it looked last: idle_elsewhere */
} Watch;

/* Begins a watch with the function at index `f`, and pushes its Watch. Raises if there is one already. */
void watch_begin(lua_State *L, Sched *S, int f);

/* The name of a label of the trace: of each that there is when the watch begins, and of each new one. */
void watch_name(Watch *watch, uint16_t label, const char *name);

/* Ends the watch, if there is one. */
void watch_end(lua_State *L, Sched *S);

/* Begins or ends to measure, for rn.metrics: the waits of the loop (Watch.waited), and its turns. A turn is the time
   between two looks of the loop at its timers and drivers, without the waits. While time is virtual, nothing is
   measured. May raise. */
void watch_measure(lua_State *L, Sched *S, bool is_on);

/* How long the thread has neither computed nor waited in the driver since the watch measures, in ns: a system call, or
   another program, has held it. For the thread of the scheduler. */
int64_t watch_blocked(Watch *watch);

/* The longest turn, in ns, since this was called last. */
int64_t watch_longest(Watch *watch);

/* The same for the snapshots of a monitor, since this was called last. */
int64_t watch_peak(Watch *watch);

#endif
