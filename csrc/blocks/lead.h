/* lead.h: leader and followers. One of a pipeline's go blocks at a time is the leader; the others, the followers, wait
   on a channel for the lead. The leader offers its lead while it calls the user's function. If it parks there, the
   first follower gets the lead; if it does not park, no coroutines are switched. */
#ifndef RUNNEL_LEAD_H
#define RUNNEL_LEAD_H

#include "core/state.h"

/* Offers the lead of the running go block to the takers of `turn`. The caller keeps `turn` alive until it calls
   lead_withdraw, or the go block dies. */
static inline void lead_offer(Sched *S, Chan *turn) {
  S->turn = turn;
  sched_check_parks(S, PARK_LEAD, true);
}

/* Ends the offer of the running go block, if it has made one. */
static inline void lead_withdraw(Sched *S) { sched_check_parks(S, PARK_LEAD, false); }

/* The leader parks: gives its lead to the first follower, if there is one. Neither allocates nor raises. */
void lead_pass(lua_State *L, Sched *S);

#endif
