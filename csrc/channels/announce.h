/* announce.h: how a go block takes from many channels at once, in whatever order they have something, without an alts
   over all of them. These channels announce what they have: when one of them gets a value, or is closed, it puts itself
   on a list, which is a channel that the go block takes from. It does so once. When the go block has found the channel
   empty, it makes it announce again.

   The list has a slot for each of the channels, so that announcing allocates nothing and does not raise. A waiting take
   on the list gets true, which says that there is something on the list by now: the go block may be closed before it
   runs, and a channel that was handed to it would be lost. */
#ifndef RUNNEL_ANNOUNCE_H
#define RUNNEL_ANNOUNCE_H

#include "core/state.h"

/* Pushes a new channel with a buffer for one value that announces on the list at index `list`. `n`: how many channels
   that do so there will be, at most the size of its buffer. May raise. */
Chan *announce_new(lua_State *L, Sched *S, int list, uint32_t n);

/* Puts the channel at index `at` on its list. The channel does not announce again, until announce_again. */
void announce(lua_State *L, Chan *ch, int at);

/* Makes an empty channel, at index `at`, announce again. Returns false if it is not one that announces. */
bool announce_again(lua_State *L, Chan *ch, int at);

#endif
