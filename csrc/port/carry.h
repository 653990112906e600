/* carry.h: what carries the messages of a port into a channel: a go block written in C. While the channel has no
   room it waits like any put, and the port fills up; while there are no messages it waits for the channel to close.

   As long as posters can post, the scheduler holds the carrier and counts it as something alive. */
#ifndef RUNNEL_CARRY_H
#define RUNNEL_CARRY_H

#include "core/state.h"
#include "port/port.h"

/* Pushes the message's value, or nothing where a MESSAGE_CALL makes none; returns how many it pushed. May raise, but
   for a boolean or a number. What a MESSAGE_CALL has belongs to its function from here on, and the message is
   MESSAGE_NONE. */
int message_push(lua_State *L, Message *message);

/* The scheduler's bell, made when it is missing. NULL for want of memory; may raise, for want of descriptors, too. */
Bell *carry_bell(lua_State *L, Sched *S);

/* Opens a port for `limit` messages to the channel at index `at`, which is closed when the port has closed and all is
   delivered, if `closes`. The caller has the poster's hold on it. NULL for want of memory; may raise. */
Port *carry_open(lua_State *L, Sched *S, int at, size_t limit, bool closes);

/* Wakes the carriers of the ports that have news. Does not raise. */
void carry_listen(lua_State *L, Sched *S);

/* Whether any port is open. */
bool carry_is_alive(const Sched *S);

#endif
