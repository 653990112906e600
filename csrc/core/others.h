/* others.h: what the core asks of other threads, and of waits that are not only its own, and tells them. None of these
   functions raises. */
#ifndef RUNNEL_OTHERS_H
#define RUNNEL_OTHERS_H

#include "core/state.h"

/* Waits of alts with alt->shared: on shared channels (states/shared_wait.h), or for others (states/gather.h). S->others,
   or NULL until there may be such a wait. */
typedef struct Others {
  /* Something comes for a waiter of such an alt. Returns the waiter to complete, which may be another one; or NULL, and
     the waiter has left its queue. */
  Waiter *(*claim)(Sched *S, Waiter *w);
  /* The alt to show in place of such an alt, which is parked: it waits in the name of that one. */
  const Alt *(*shown)(const Alt *alt);
  /* Stops the alt's wait on its shared channels. A value that has arrived for it goes back. */
  void (*abandon)(Sched *S, Alt *alt);
  /* Whether another thread may complete the alt, or has completed it. */
  bool (*is_open)(const Sched *S, const Alt *alt);
  /* Whether another thread may close a channel with CHAN_DONE_SHARED. */
  bool (*may_close)(const Chan *done);
} Others;

/* For what shows the waits of an alt: the alt of which to show the waiters. */
static inline const Alt *others_shown(const Alt *alt) {
  if (LIKELY(!alt->shared) || !alt->count) return alt;
  return alt_waiters(alt)->chan->sched->others->shown(alt);
}

/* Messages that other threads post (port/pump.h): S->port_hook, or NULL until there is a port. */
typedef struct PortHook {
  void (*poll)(lua_State *L, Sched *S); /* makes the go blocks ready that deliver messages */
  bool (*alive)(const Sched *S);        /* whether a port is open, or has messages that no go block delivers yet */
  void (*closed)(const Chan *ch);       /* closes the ports to the channel, which has closed */
} PortHook;

#endif
