/* trace_switch.h: switches the parts of a trace (trace.h) on and off, and taps channels. */
#ifndef RUNNEL_TRACE_SWITCH_H
#define RUNNEL_TRACE_SWITCH_H

#include "tracing/trace_state.h"

typedef enum TracePart {
  TRACE_LIST = 1,
  TRACE_EDGES = 2,
  TRACE_RING = 4,
  TRACE_CONTEXTS = 8,
  TRACE_IN_PARTS = 16 /* not a part: the caller scans (trace_list_scan_part) */
} TracePart;

/* Holds parts (of TracePart): they stay on until trace_release is called as often. TRACE_EDGES and TRACE_RING hold the
   list, too. `records`, with TRACE_RING: the least size of the ring, which is emptied if it must grow. The list gets
   older channels when a value is put on them or an operation waits on them. May raise; then nothing is held. */
void trace_hold(lua_State *L, Sched *S, unsigned parts, uint32_t records);

/* Releases a hold of parts. A part without holds is switched off, and its memory is freed; labels stay. */
void trace_release(lua_State *L, Sched *S, unsigned parts);

/* Taps the channel at index `at`: calls the function on top of L, which is popped, as f(value, waits) for each value,
   when it has been put or when its put waits (`waits`). The function must not park. One channel at a time can be
   tapped; nil on top ends the tap of this channel. May raise. */
void trace_tap(lua_State *L, Sched *S, int at);

#endif
