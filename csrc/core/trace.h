/* trace.h: what the scheduler and the channels do, for those who watch: the prompt's commands, the flight recorder, the
   graph, the monitor.

   There are three parts, each switched on while somebody holds it:

   - the list of all channels, which are referred to weakly;
   - the edges: how many values the go blocks of each name have put on, and taken from, each channel;
   - the ring: the last records of what has happened, of a fixed size and a fixed number.

   While neither edges nor ring are held, and nobody taps a channel, S->trace is NULL: each place that would record
   something tests that and nothing else. The clock is read once per resume, so records of one run of a go block have
   the same time; their order is exact.

   A label is a number for a name: that of a go block, or of a channel. A label is found when a go block runs first, or a
   channel is made, and is in its Buffer, which has room for it. Each record has the label of its go block. So the dead
   keep their names.

   Ids in records are the low 32 bits of a go block's or channel's id; the scheduler would need 2^32 go blocks and
   channels to use one again. */
#ifndef RUNNEL_TRACE_H
#define RUNNEL_TRACE_H

#include "core/trace_list.h"

/* ---- switching on and off ---- */

typedef enum TracePart { TRACE_LIST = 1, TRACE_EDGES = 2, TRACE_RING = 4 } TracePart;

/* The sizes of the ring, in records: rounded up to a power of 2. */
enum { TRACE_LEAST = 1 << 8, TRACE_DEFAULT = 1 << 16, TRACE_MOST = 1 << 24 };

/* Holds parts (of TracePart): they stay on until trace_release is called as often. TRACE_EDGES and TRACE_RING hold the
   list, too. `records`, with TRACE_RING: the least size of the ring, which is emptied if it must grow. Channels that were
   made while there was no list are in it as soon as somebody puts on them or waits. May raise; then nothing is held. */
void trace_hold(lua_State *L, Sched *S, unsigned parts, uint32_t records);

/* Ends a hold of parts. A part that nobody holds is switched off, and its memory is freed; labels stay. */
void trace_release(lua_State *L, Sched *S, unsigned parts);

/* Calls the function on top of L, which is popped, as f(value, waits) for each value that is put on the channel at index
   `at`: once it is put, or once its put waits (`waits`). The function must not park. One channel at a
   time has such a function; nil on top ends that of this channel. May raise. */
void trace_tap(lua_State *L, Sched *S, int at);

/* The time that a record would have now, in ns. */
int64_t trace_now(Sched *S);

/* ---- the places: only if S->trace ---- */

/* Before a resume: finds the label of the go block, whose userdata is at index `at` and stays there until trace_left.
   Returns false if it is not to be resumed any more, since a finalizer has ended it. Does not raise. */
bool trace_prepare(lua_State *L, Sched *S, Go *go, int at);

/* It is resumed now. */
void trace_run(Sched *S, Go *go);

/* It has yielded: it is parked, asleep or ready, unless it has ended. Does not raise. */
void trace_left(lua_State *L, Sched *S, const Alt *alt);

/* The main program runs the loop, and goes on. */
void trace_main_leaves(lua_State *L, Sched *S);
void trace_main_runs(Sched *S);

/* Nothing is ready: the scheduler waits. */
void trace_idle(Sched *S);

/* A go block, whose userdata is at index `at`, was started. Does not raise. */
void trace_spawn(lua_State *L, Sched *S, Go *go, int at);

/* A go block has ended. */
void trace_end(Sched *S, const Go *go);

/* The sleep of an alt is over. */
void trace_timer(Sched *S, const Alt *alt);

/* A channel, at index `at`, was made; if S->listing. May raise. */
void trace_born(lua_State *L, Sched *S, int at);

/* The caller has put the value at index `value`; a waiting take of `taker` got it, or (NULL) the buffer. Only when the
   operation is complete: this may run finalizers, and the function of a tap. Does not raise. */
void trace_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker);

/* The caller has taken a value: from a waiting put of `putter`, or (NULL) from the buffer. */
void trace_take(Chan *ch, const Alt *putter);

/* The value of a waiting put has gone to the buffer. */
void trace_admit(Chan *ch, const Alt *putter);

/* A waiting take has got a value of the buffer. */
void trace_serve(Chan *ch, const Alt *taker);

/* The channel is closed. */
void trace_close(const Chan *ch);

#endif
