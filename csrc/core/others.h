/* others.h: what the core asks of other threads, and tells them. None of these functions raises. */
#ifndef RUNNEL_OTHERS_H
#define RUNNEL_OTHERS_H

#include "core/state.h"

/* Waits with alt->shared: on shared channels (states/shared_wait.h), or for a turn besides a value (states/gather.h).
   S->others; NULL until there may be such a wait. */
typedef struct Others {
  /* Something comes for a waiter. Returns true if the waiter takes it, and nothing else can complete its alt any more.
     Otherwise removes the waiter from its queue. */
  bool (*claim)(lua_State *L, Sched *S, Waiter *w);
  /* Stops the alt's wait on its shared channels. A value that has arrived for it goes back. */
  void (*abandon)(Sched *S, Alt *alt);
  /* Whether another thread may complete the alt, or has completed it. */
  bool (*is_open)(const Sched *S, const Alt *alt);
  /* Whether another thread may close a channel with CHAN_DONE_SHARED. */
  bool (*may_close)(const Chan *done);
} Others;

/* Messages that other threads post (port/pump.h): S->port_hook, or NULL until there is a port. */
typedef struct PortHook {
  void (*poll)(lua_State *L, Sched *S); /* makes the go blocks ready that deliver messages */
  bool (*alive)(const Sched *S);        /* whether a port is open, or has messages that no go block delivers yet */
  void (*closed)(const Chan *ch);       /* closes the ports to the channel, which has closed */
} PortHook;

#endif
