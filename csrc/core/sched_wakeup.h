/* sched_wakeup.h: the scheduler's wakeup, which other threads signal when they have news. */
#ifndef RUNNEL_SCHED_WAKEUP_H
#define RUNNEL_SCHED_WAKEUP_H

#include "core/state.h"

/* The wakeup, which is made if it does not exist. NULL if there is no memory; may raise, also if there is no file
   descriptor left. */
struct Wakeup *sched_wakeup(lua_State *L, Sched *S);

/* The descriptor that is readable once the wakeup is signalled; or -1 as long as there is no wakeup. */
int sched_wakeup_fd(const Sched *S);

#endif
