/* trace.h: records what the scheduler and the channels do, for the prompt's commands, the flight recorder, the graph
   and the monitor.

   It has four parts, each on while it has holds (trace_switch.h):

   - the list of all channels, to which it refers weakly;
   - the edges: how many values the go blocks of each name have put on, and taken from, each channel;
   - the ring: the last records of what has happened, of a fixed size and a fixed number;
   - the contexts: values that go blocks pass on to those that they start (trace_context.h).

   The core calls it as its observer (observe.h). While the ring is held, it reads the clock once for each resume:
   records of one run of a go block have the same time, and their order is exact. Without the ring it reads no clock and
   records nothing, which costs much less.

   A label is a number that stands for the name of a go block or channel. It is determined when a go block first runs,
   or a channel is made, and is stored in its Buffer, which has room for it. Each record has the label of its go block,
   so names outlive go blocks and channels.

   Ids in records are the low 32 bits of a go block's or channel's id. They repeat after 2^32 go blocks and channels. */
#ifndef RUNNEL_TRACE_H
#define RUNNEL_TRACE_H

#include "core/observe.h"

/* An offer, or a poll, on the channel has failed. Only a story records it. */
void trace_vain(const Sched *S, const Chan *ch, bool is_offer);

#endif
