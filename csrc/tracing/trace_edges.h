/* trace_edges.h: the table of edges of a trace: open addressing, linear probing. */
#ifndef RUNNEL_TRACE_EDGES_H
#define RUNNEL_TRACE_EDGES_H

#include "tracing/trace_state.h"

/* Where the search for a key begins. */
static inline uint32_t trace_edges_first(uint64_t key, uint32_t mask) {
  return (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
}

/* Counts what is not counted at the first place where it could be: see trace_edges_count. */
void trace_edges_count_slowly(Trace *t, const Chan *ch, uint16_t label, bool is_put);

/* Counts a put or take on the channel by go blocks with that label; only if there is a table. Allocates nothing: if the
   table is full, the value is counted as lost. Inline, since it runs twice for each message. */
static inline void trace_edges_count(Trace *t, const Chan *ch, uint16_t label, bool is_put) {
  uint64_t key = (uint64_t)label << 32 | (uint32_t)ch->id;
  TraceEdge *e = &t->edges[trace_edges_first(key, t->edges_mask)];
  if (UNLIKELY(e->key != key || ch->flags & CHAN_GO)) trace_edges_count_slowly(t, ch, label, is_put);
  else if (is_put) e->puts++;
  else e->takes++;
}

/* Makes room, if the table is tight: drops the edges of channels that have been collected, or doubles it. May raise. */
void trace_edges_grow(lua_State *L, Trace *t);

/* Makes the table, if there is none. May raise. */
void trace_edges_open(lua_State *L, Trace *t);

/* Frees it. */
void trace_edges_close(lua_State *L, Trace *t);

#endif
