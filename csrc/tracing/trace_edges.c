/* trace_edges.c: see trace_edges.h. */
#include "tracing/trace_edges.h"

#include <string.h>

#include "tracing/trace_store.h"

enum { FEWEST = 1 << 10, MOST = 1 << 17 }; /* slots */

/* The key of an edge: see trace_edge_chan and so on. */
static uint64_t key_of(const Chan *ch, uint16_t label) {
  bool is_result = (ch->flags & CHAN_GO) != 0;
  uint32_t chan = is_result ? trace_label(ch) : (uint32_t)ch->id;
  return (uint64_t)is_result << 48 | (uint64_t)label << 32 | chan;
}

/* The slot of a key, which is free if there is no such edge. The table always has a free slot. */
static TraceEdge *find(TraceEdge *edges, uint32_t mask, uint64_t key) {
  uint32_t i = trace_edges_first(key, mask);
  while (edges[i].key && edges[i].key != key) i = (i + 1) & mask;
  return &edges[i];
}

/* How many slots may be in use: a search for a new key must not take long. */
static uint32_t most_used(const Trace *t) { return t->edges_mask - t->edges_mask / 4; }

/* The table has got this many edges, and can be swept, or grow, when it has got many more: a sweep takes longer than
   many resumes, and may find nothing to drop. */
static void set_used(Trace *t, uint32_t n) {
  uint32_t most = most_used(t);
  t->edges_used = n;
  t->edges_limit = n < t->edges_mask / 4 ? t->edges_mask / 2 : n + (most - n) / 2;
  t->is_tight = false;
}

void trace_edges_count_slowly(Trace *t, const Chan *ch, uint16_t label, bool is_put) {
  uint64_t key = key_of(ch, label);
  TraceEdge *e = find(t->edges, t->edges_mask, key);
  if (!e->key) {
    if (t->edges_used == most_used(t)) {
      if (++t->edges_lost % MOST == 0) t->is_tight = true; /* channels may have been collected meanwhile */
      return;
    }
    *e = (TraceEdge){.key = key};
    if (++t->edges_used > t->edges_limit) t->is_tight = true;
  }
  if (is_put) e->puts++;
  else e->takes++;
}

/* Moves the edges to the empty table `to`; if a table of ids is on top of L, only the edges of these channels and of
   result channels. Returns how many it has moved. */
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
    uint32_t n = move(L, t, edges, size - 1, only_live);
    t->edges = edges;
    t->edges_mask = size - 1;
    set_used(t, n);
    lua_pushvalue(L, top + 1);
    trace_store(L, TRACE_EDGES_AT);
  }
  lua_settop(L, top);
  return same;
}

void trace_edges_grow(lua_State *L, Trace *t) {
  uint32_t size = t->edges_mask + 1;
  if (!t->is_tight || !replace(L, t, size, true)) return;
  if (t->edges_used > size / 4 && size < MOST) replace(L, t, size * 2, false);
}

void trace_edges_open(lua_State *L, Trace *t) {
  if (t->edges) return;
  TraceEdge *edges = (TraceEdge *)lua_newuserdatauv(L, FEWEST * sizeof(TraceEdge), 0);
  memset(edges, 0, FEWEST * sizeof(TraceEdge));
  trace_store(L, TRACE_EDGES_AT);
  t->edges = edges;
  t->edges_mask = FEWEST - 1;
  t->edges_lost = 0;
  set_used(t, 0);
}

void trace_edges_close(lua_State *L, Trace *t) {
  t->edges = NULL;
  t->is_tight = false;
  lua_pushnil(L);
  trace_store(L, TRACE_EDGES_AT);
}
