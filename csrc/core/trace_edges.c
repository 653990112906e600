/* trace_edges.c: see trace_edges.h. */
#include "core/trace_edges.h"

#include <string.h>

#include "core/trace_store.h"

enum { FEWEST = 1 << 10, MOST = 1 << 17 }; /* slots */

/* Slots that may be in use: with more, a look-up of an edge that is not there would take long. */
static uint32_t most_used(uint32_t mask) { return mask / 4 * 3; }

/* Sets how many edges may be added, or lost, until the table must grow. A table that cannot grow is looked through for
   edges of collected channels after as many as make that cheap. */
static void set_due(Trace *t) {
  uint32_t half = t->edges_mask / 2;
  t->edges_due = t->edges_used < half / 2 ? half - t->edges_used : half / 2;
}

/* The key of an edge: see trace_edge_chan and so on. */
static uint64_t key_of(const Chan *ch, uint16_t label) {
  bool is_result = (ch->flags & CHAN_GO) != 0;
  uint32_t chan = is_result ? trace_label(ch) : (uint32_t)ch->id;
  return (uint64_t)is_result << 48 | (uint64_t)label << 32 | chan;
}

/* The slot of a key, which is free if there is no such edge. The table always has a free slot. */
static TraceEdge *find(TraceEdge *edges, uint32_t mask, uint64_t key) {
  uint32_t i = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
  while (edges[i].key && edges[i].key != key) i = (i + 1) & mask;
  return &edges[i];
}

void trace_edges_count(Trace *t, const Chan *ch, uint16_t label, bool is_put) {
  uint64_t key = key_of(ch, label);
  TraceEdge *e = t->hot[is_put];
  if (!e || e->key != key) {
    e = find(t->edges, t->edges_mask, key);
    if (!e->key) {
      if (t->edges_due) t->edges_due--;
      if (t->edges_used >= most_used(t->edges_mask)) {
        t->edges_lost++;
        return;
      }
      *e = (TraceEdge){.key = key};
      t->edges_used++;
    }
    t->hot[is_put] = e;
  }
  if (is_put) e->puts++;
  else e->takes++;
}

/* Moves the edges to `to`, which is empty; if there is a table of ids on top of L, only those of channels that it has,
   and of result channels. Returns how many. */
static uint32_t move(lua_State *L, const Trace *t, TraceEdge *to, uint32_t mask, bool only_live) {
  uint32_t n = 0;
  for (uint32_t i = 0; i <= t->edges_mask; i++) {
    const TraceEdge *e = &t->edges[i];
    if (!e->key) continue;
    bool is_live = true;
    if (only_live && !trace_edge_is_result(e)) {
      is_live = lua_rawgeti(L, -1, trace_edge_chan(e)) != LUA_TNIL;
      lua_pop(L, 1);
    }
    if (!is_live) continue;
    *find(to, mask, e->key) = *e;
    n++;
  }
  return n;
}

/* Pushes a table with the ids of all channels of the list that have not been collected. */
static void push_live(lua_State *L, const Trace *t) {
  lua_createtable(L, 0, (int)t->nchans);
  for (uint32_t i = 0; i < t->nchans; i++) {
    if (t->chans[i].gone) continue;
    lua_pushboolean(L, 1);
    lua_rawseti(L, -2, (lua_Integer)(uint32_t)t->chans[i].id);
  }
}

/* Replaces the table by one of `size` slots, with the live edges, or all. Returns false if a finalizer has replaced it
   meanwhile. */
static bool replace(lua_State *L, Trace *t, uint32_t size, bool only_live) {
  int top = lua_gettop(L);
  const TraceEdge *before = t->edges;
  TraceEdge *edges = (TraceEdge *)lua_newuserdatauv(L, size * sizeof(TraceEdge), 0);
  memset(edges, 0, size * sizeof(TraceEdge));
  if (only_live) push_live(L, t);
  bool same = t->edges == before;
  if (same) {
    t->edges_used = move(L, t, edges, size - 1, only_live);
    t->edges = edges;
    t->edges_mask = size - 1;
    t->hot[0] = t->hot[1] = NULL;
    set_due(t);
    lua_pushvalue(L, top + 1);
    trace_store(L, TRACE_EDGES_AT);
  }
  lua_settop(L, top);
  return same;
}

void trace_edges_grow(lua_State *L, Trace *t) {
  uint32_t size = t->edges_mask + 1;
  if (!trace_edges_tight(t) || !replace(L, t, size, true)) return;
  if (t->edges_used > size / 4 && size < MOST) replace(L, t, size * 2, false);
}

void trace_edges_open(lua_State *L, Trace *t) {
  if (t->edges) return;
  TraceEdge *edges = (TraceEdge *)lua_newuserdatauv(L, FEWEST * sizeof(TraceEdge), 0);
  memset(edges, 0, FEWEST * sizeof(TraceEdge));
  trace_store(L, TRACE_EDGES_AT);
  t->edges = edges;
  t->edges_mask = FEWEST - 1;
  t->edges_used = 0;
  t->edges_lost = 0;
  t->hot[0] = t->hot[1] = NULL;
  set_due(t);
}

void trace_edges_close(lua_State *L, Trace *t) {
  t->edges = NULL;
  t->hot[0] = t->hot[1] = NULL;
  lua_pushnil(L);
  trace_store(L, TRACE_EDGES_AT);
}
