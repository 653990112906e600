/* others.h: what the core asks of other threads, and tells them. None of these functions raises. */
#ifndef RUNNEL_OTHERS_H
#define RUNNEL_OTHERS_H

#include "core/state.h"

/* Operations on shared channels (states/shared_wait.h): S->others, or NULL until the state has such a channel. */
typedef struct Others {
  /* Withdraws an alt with alt->shared from its shared channels. Returns false if another thread has completed it. */
  bool (*withdraw)(Sched *S, Alt *alt);
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
