/* lua/stats.h: what ch:stats() and tostring(ch) show of a channel. The channel is at index 1. */
#ifndef RUNNEL_LUA_STATS_H
#define RUNNEL_LUA_STATS_H

#include "channels/chan.h"

/* The statistics of a channel, with the number of values of a policy. May call the policy, and so raise. */
ChanStats stats_of(lua_State *L, Chan *ch);

/* Pushes them as a table. May raise. */
void stats_push(lua_State *L, Chan *ch);

#endif
