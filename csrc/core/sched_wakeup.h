/* sched_wakeup.h: the scheduler's wakeup, which other threads signal when they have news for it. */
#ifndef RUNNEL_SCHED_WAKEUP_H
#define RUNNEL_SCHED_WAKEUP_H

#include "core/state.h"

/* Returns the wakeup, which it makes if there is none; NULL if memory runs out. May raise: no descriptor is left. */
struct Wakeup *sched_wakeup(lua_State *L, Sched *S);

/* The descriptor that becomes readable when the wakeup is signalled; -1 while there is no wakeup. */
int sched_wakeup_fd(const Sched *S);

#endif
