/* trace_switch.c: see trace_switch.h. */
#include "tracing/trace_switch.h"

#include "core/setup.h"
#include "lifetimes/root.h"
#include "tracing/context_pass.h"
#include "tracing/trace.h"
#include "tracing/trace_context.h"
#include "tracing/trace_copy.h"
#include "tracing/trace_edges.h"
#include "tracing/trace_help.h"
#include "tracing/trace_list.h"
#include "tracing/trace_record.h"
#include "tracing/trace_store.h"

/* Begins or ends to observe the core. */
static void set_observer(Sched *S, Trace *t) {
  bool is_on = t->holds[1] || t->holds[2] || t->is_tapped;
  if (is_on && !t->is_on) {
    t->now = 0; /* so that the clock may begin where it is */
    t->offset = 0;
    t->was_virtual = S->world.clock.is_virtual;
    if (S->current) trace_set_running(t, S->current);
    else trace_set_main_running(t, !S->running);
  }
  t->is_on = is_on;
  bool only_counts = !t->holds[2] && !t->is_tapped;
  const Observer *recording = only_counts ? &trace_counts_observer : &trace_observer;
  observe_seat(S, SEAT_TRACE, is_on ? recording : t->holds[3] ? &context_pass_observer : NULL);
  S->births = t->holds[0] ? &trace_observer : NULL;
}

/* Makes the trace of the scheduler, off. May raise. */
static Trace *make(lua_State *L, Sched *S) {
  if (S->tracer) return S->tracer;
  int top = lua_gettop(L);
  Trace *t = (Trace *)lua_newuserdatauv(L, sizeof(Trace), TRACE_NUSER);
  *t = (Trace){.nlabels = TRACE_FIRST};
  setup_push_function(L, trace_help);
  lua_setiuservalue(L, top + 1, TRACE_HELP);
  lua_newtable(L);
  lua_setiuservalue(L, top + 1, TRACE_LABELS);
  if (!S->tracer) { /* else a finalizer has made it meanwhile */
    lua_pushvalue(L, top + 1);
    lua_setiuservalue(L, SCHED_SELF, SCHED_TRACE);
    S->tracer = t;
  }
  lua_settop(L, top);
  return S->tracer;
}

/* Makes a ring of at least `records` records, unless there is one. May raise. */
static void open_ring(lua_State *L, Trace *t, uint32_t records) {
  uint32_t size = TRACE_LEAST;
  while (size < records && size < TRACE_MOST) size *= 2;
  if (t->ring && t->mask + 1 >= size) return;
  TraceRecord *ring = (TraceRecord *)lua_newuserdatauv(L, size * sizeof(TraceRecord), 0);
  trace_store(L, TRACE_RING_AT);
  t->ring = ring;
  t->mask = size - 1;
  t->began = t->next;
}

static void close_ring(lua_State *L, Trace *t) {
  trace_copy_close(L, t);
  t->ring = NULL;
  t->mask = 0;
  t->began = t->next;
  lua_pushnil(L);
  trace_store(L, TRACE_RING_AT);
}

/* The parts, in the order of Trace.holds. */
enum { NPARTS = 4 };

/* `parts` with all that they need. */
static unsigned with_list(unsigned parts) { return parts & (TRACE_EDGES | TRACE_RING) ? parts | TRACE_LIST : parts; }

/* Records the waiting owners and the running code. */
static void record_beginning(lua_State *L, Sched *S) {
  trace_read_clock(S->tracer, S);
  for (uint32_t i = 1; i <= root_count(S); i++) {
    const Go *go = root_push_at(L, i);
    if (go && (go->alt.state == ALT_PARKED || go->alt.state == ALT_SLEEPING))
      trace_record_park(S, trace_actor_of(go), &go->alt);
    lua_pop(L, 1);
  }
  trace_record(S->tracer, TRACE_RUN, trace_current(S), 0, 0, 0);
}

void trace_hold(lua_State *L, Sched *S, unsigned parts, uint32_t records) {
  parts = with_list(parts);
  Trace *t = make(L, S);
  /* What may raise comes first: what is opened but not held is closed at the next release. */
  bool is_new = parts & TRACE_LIST && !t->holds[0];
  if (is_new) trace_list_open(L);
  if (parts & TRACE_EDGES) trace_edges_open(L, t);
  if (parts & TRACE_CONTEXTS && !t->holds[3]) trace_context_open(L);
  const TraceRecord *ring = t->ring;
  if (parts & TRACE_RING) open_ring(L, t, records);
  bool is_new_ring = t->ring != ring;
  for (int i = 0; i < NPARTS; i++) t->holds[i] += parts >> i & 1;
  bool was_on = trace_is_on(S);
  set_observer(S, t);
  if (!(parts & TRACE_IN_PARTS) && (is_new || (trace_is_on(S) && !was_on))) {
    lua_pushnil(L);
    trace_call_help(L, TRACE_SCAN);
  }
  if (is_new_ring && trace_is_on(S)) record_beginning(L, S); /* a finalizer may have released it */
}

void trace_release(lua_State *L, Sched *S, unsigned parts) {
  Trace *t = S->tracer;
  parts = with_list(parts);
  for (int i = 0; i < NPARTS; i++) t->holds[i] -= parts >> i & 1;
  set_observer(S, t);
  if (!t->holds[2] && t->ring) close_ring(L, t);
  if (!t->holds[1] && t->edges) trace_edges_close(L, t);
  if (!t->holds[0]) trace_list_close(L, t);
  if (!t->holds[3]) trace_context_close(L);
}

void trace_tap(lua_State *L, Sched *S, int at) {
  Trace *t = make(L, S);
  bool is_on = !lua_isnil(L, -1);
  if (!is_on && t->tapped != lua_touserdata(L, at)) {
    lua_pop(L, 1); /* another channel is tapped meanwhile */
    return;
  }
  trace_store(L, TRACE_TAP);
  if (is_on) lua_pushvalue(L, at);
  else lua_pushnil(L);
  trace_store(L, TRACE_TAPPED);
  t->tapped = is_on ? (const Chan *)lua_touserdata(L, at) : NULL;
  t->is_tapped = is_on;
  set_observer(S, t);
}
