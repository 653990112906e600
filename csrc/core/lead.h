/* lead.h: passing the lead on. Of the go blocks of a pipeline one at a time leads, and the others follow: they
   wait on a channel for the lead. The leader offers its lead while it runs code of the user's. If it parks in there,
   the first follower gets the lead; if it does not, nothing is switched. */
#ifndef RUNNEL_LEAD_H
#define RUNNEL_LEAD_H

#include "core/state.h"

/* Offers the lead of the running go block, which is that of `alt`, to those that take from `turn`. The caller keeps
   `turn` alive until it calls lead_withdraw, or the go block dies. */
static inline void lead_offer(Sched *S, Alt *alt, Chan *turn) { S->lead = (Lead){alt, turn}; }

/* Ends the offer of the running go block, if it has made one. */
static inline void lead_withdraw(Sched *S) { S->lead.leader = NULL; }

/* The leader parks: gives its lead to the first follower, if there is one. Neither allocates nor raises. */
void lead_pass(lua_State *L, Sched *S);

#endif
