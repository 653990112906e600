/* trace_edges.h: the table of edges of a trace: open addressing, linear probing. */
#ifndef RUNNEL_TRACE_EDGES_H
#define RUNNEL_TRACE_EDGES_H

#include "core/trace_state.h"

/* Counts a put or take on the channel by go blocks with that label. Allocates nothing: if the table is full, the value
   is counted as lost. */
void trace_edges_count(Trace *t, const Chan *ch, uint16_t label, bool is_put);

/* Whether the table is so full that it must grow; not again soon if it has its greatest size. */
static inline bool trace_edges_tight(const Trace *t) { return t->edges && !t->edges_due; }

/* Makes room, if the table is there: drops the edges of channels that have been collected, or doubles it. May raise. */
void trace_edges_grow(lua_State *L, Trace *t);

/* Makes the table, if there is none. May raise. */
void trace_edges_open(lua_State *L, Trace *t);

/* Frees it. */
void trace_edges_close(lua_State *L, Trace *t);

#endif
