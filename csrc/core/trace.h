/* trace.h: records what the scheduler and the channels do, for the prompt's commands, the flight recorder, the graph
   and the monitor.

   There are three parts, each of which is on while it has holds (trace_switch.h):

   - the list of all channels, which are referred to weakly;
   - the edges: how many values the go blocks of each name have put on, and taken from, each channel;
   - the ring: the last records of what has happened, of a fixed size and a fixed number.

   While neither edges nor ring are held, and no channel is tapped, S->trace is NULL: each place that would record
   something tests only that. While the ring is held, the clock is read once per resume, so records of one run of a go
   block have the same time; their order is exact. Without the ring, the clock is not read, and nothing is recorded,
   which costs much less.

   A label is a number that stands for the name of a go block or channel. It is determined when a go block first runs,
   or a channel is made, and is stored in its Buffer, which has room for it. Each record has the label of its go block,
   so names outlive go blocks and channels.

   Ids in records are the low 32 bits of a go block's or channel's id. They repeat after 2^32 go blocks and channels. */
#ifndef RUNNEL_TRACE_H
#define RUNNEL_TRACE_H

#include "core/trace_list.h"

/* ---- hooks: to be called only if S->trace ---- */

/* A go block is about to be resumed: finds its label. This may run finalizers; returns false if the go block is not to
   be resumed any more because of that. Does not raise. */
bool trace_run(lua_State *L, Sched *S, Go *go);

/* The go block has yielded: it is parked, asleep or ready, unless it has ended; or S->trace is off now. Does not
   raise. */
void trace_left(lua_State *L, Sched *S, const Alt *alt);

/* The main program starts to run the loop; the main program goes on. */
void trace_main_leaves(lua_State *L, Sched *S);
void trace_main_runs(Sched *S);

/* Nothing is ready: the scheduler waits. */
void trace_idle(Sched *S);

/* The scheduler has waited. */
void trace_awake(Sched *S);

/* A go block, whose userdata is at index `at`, was started. Does not raise. */
void trace_spawn(lua_State *L, Sched *S, Go *go, int at);

/* A go block has ended; by an error? */
void trace_end(Sched *S, const Go *go, bool is_error);

/* A go block has ended by an error that somebody may still take; the record of the error (unhandled.c) is on top of L
   and popped. To be called only if trace_kept_is_on. Does not raise. */
void trace_error(lua_State *L);

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

/* The caller has put or taken on a shared channel, whose handle is at index `at`: this may run finalizers. Or, with
   `alt`, another thread has completed that for an alt. */
void trace_shared(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put);

/* The channel is closed. */
void trace_close(const Chan *ch);

#endif
