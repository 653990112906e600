/* pump.h: moves the messages of a port into a channel. A pump is a go block written in C: it takes messages from its
   port and puts them on the channel. While the channel has no room it waits like any put, and the port fills up; while
   the port is empty it waits for the channel to close.

   While the port is open, the scheduler keeps the pump alive, and no wait is a deadlock (but see PUMP_QUIET). */
#ifndef RUNNEL_PUMP_H
#define RUNNEL_PUMP_H

#include "core/state.h"
#include "port/port.h"

/* Pushes the message's value, or nothing if a MESSAGE_CALL makes none; returns how many values it pushed. The message
   is then MESSAGE_NONE if it was a MESSAGE_CALL: its function now owns its data. May raise, except for a boolean or a
   number. */
int message_push(lua_State *L, Message *message);

typedef enum PumpFlag {
  PUMP_CLOSES = 1, /* the channel is closed once the port has closed and all messages are delivered */
  PUMP_QUIET = 2   /* the open port keeps the scheduler waiting only while a take waits on the channel */
} PumpFlag;

/* Opens a port for `limit` messages to the channel at index `at`, with `flags` of PumpFlag. The caller gets a poster's
   hold. NULL if there is no memory; may raise. */
Port *pump_open(lua_State *L, Sched *S, int at, size_t limit, unsigned flags);

#endif
