/* others.h: what the core asks and tells about other threads. None of these functions raises. */
#ifndef RUNNEL_OTHERS_H
#define RUNNEL_OTHERS_H

#include "core/state.h"

/* Operations on shared channels (sharing/shared_wait.h): S->others, or NULL until the state has such a channel. */
typedef struct Others {
  /* Withdraws an alt, which has alt->shared, from its shared channels and returns true. Returns false if another thread
     has completed it: its result will come, and cannot be undone. */
  bool (*withdraw)(Sched *S, Alt *alt);
  /* Makes it stop waiting on them, whatever other threads have done. A value that has come for it goes back. */
  void (*abandon)(Sched *S, Alt *alt);
  /* Whether another thread may complete it, or has done so. */
  bool (*is_open)(const Alt *alt);
  /* Whether another thread may close a channel with CHAN_DONE_SHARED. */
  bool (*may_close)(const Chan *done);
} Others;

/* Messages that other threads post (port/pump.h): S->port_hook, or NULL until there is a port. */
typedef struct PortHook {
  void (*poll)(lua_State *L, Sched *S); /* makes the go blocks ready that deliver messages */
  bool (*alive)(const Sched *S);        /* whether a port is open, or has messages that nobody delivers yet */
  void (*closed)(const Chan *ch);       /* closes the ports to the channel, which has closed */
} PortHook;

#endif
