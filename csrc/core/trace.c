/* trace.c: see trace.h. */
#include "core/trace.h"

#include <lauxlib.h>

#include "core/error.h"
#include "core/root.h"
#include "core/trace_edges.h"
#include "core/trace_kept.h"
#include "core/trace_list.h"
#include "core/trace_store.h"

/* Slots on the stack that a place needs at most. */
enum { STACK_TO_HELP = 8 };

/* ---- what may raise, called protected ---- */

typedef enum Task { LABEL_GO, ADD_CHAN, GROW_EDGES, SCAN, COPY_RING } Task;

/* Protected: (task, userdata of the go block or channel, record of an error, or nil). */
static int help(lua_State *L) {
  Trace *t = sched_self(L)->tracer;
  switch ((Task)lua_tointeger(L, 1)) {
  case LABEL_GO:
    trace_list_label_go(L, t, (Go *)lua_touserdata(L, 2), 2);
    break;
  case ADD_CHAN:
    if (t->holds[0]) trace_list_add(L, t, 2);
    break;
  case GROW_EDGES:
    trace_edges_grow(L, t);
    break;
  case SCAN:
    trace_list_scan(L, sched_self(L), t);
    break;
  case COPY_RING:
    trace_kept_copy(L, t, trace_now(sched_self(L)));
    break;
  }
  return 0;
}

/* Calls help for the value on top of L, which is popped. If memory runs out, nothing happens, except that a finalizer may
   have run. */
static void call_help(lua_State *L, Task task) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, STACK_TO_HELP)) {
    trace_fetch(L, TRACE_HELP);
    lua_pushinteger(L, task);
    lua_pushvalue(L, top);
    (void)lua_pcall(L, 2, 0, 0);
  }
  lua_settop(L, top - 1);
}

/* ---- records ---- */

typedef struct Actor {
  uint32_t id;    /* of a go block, or 0 */
  uint16_t label; /* its label */
} Actor;

static Actor actor_of_go(const Go *go) { return (Actor){(uint32_t)go->chan.id, go->chan.buf.label}; }

/* The label of who runs. */
static inline uint16_t current_label(const Sched *S) {
  if (LIKELY(S->current != NULL)) return S->current->chan.buf.label;
  return S->running ? TRACE_DRIVER : TRACE_MAIN;
}

/* Who runs. */
static Actor current(const Sched *S) {
  return (Actor){S->current ? (uint32_t)S->current->chan.id : 0, current_label(S)};
}

/* The label of who waits, or has waited. */
static inline uint16_t owner_label(const Sched *S, const Alt *alt) {
  return alt == &S->outside ? TRACE_MAIN : CONTAINER_OF(alt, const Go, alt)->chan.buf.label;
}

/* Who waits, or has waited. */
static Actor owner(const Sched *S, const Alt *alt) {
  return (Actor){alt == &S->outside ? 0 : (uint32_t)CONTAINER_OF(alt, const Go, alt)->chan.id, owner_label(S, alt)};
}

/* Notes whether the main program runs. */
static void set_main_running(Trace *t, bool runs) {
  atomic_store_explicit(&t->running, runs ? (uint64_t)TRACE_MAIN << 32 : 0, memory_order_relaxed);
}

/* Writes a record, if there is a ring. */
static void record(Trace *t, TraceKind kind, Actor who, uint32_t chan, uint64_t seq, int what) {
  if (!t->ring || UNLIKELY(who.label == TRACE_HIDDEN)) return;
  t->ring[t->next++ & t->mask] = (TraceRecord){.time = t->now,
                                               .go = who.id,
                                               .chan = chan,
                                               .seq = (uint32_t)seq,
                                               .kind = (uint8_t)kind,
                                               .what = (uint8_t)what,
                                               .label = who.label};
}

/* Reads the clock, if there is a ring. A simulation has a clock of its own, which begins at 0; records go on where they
   were. */
static void look_at_clock(Trace *t, const Sched *S) {
  if (!t->ring) return;
  const Clock *clock = &S->world.clock;
  int64_t now = clock_now(clock);
  if (UNLIKELY(clock->is_virtual != t->was_virtual || now + t->offset < t->now)) {
    t->was_virtual = clock->is_virtual;
    t->offset = t->now - now;
  }
  t->now = now + t->offset;
}

int64_t trace_now(Sched *S) {
  if (S->tracer) look_at_clock(S->tracer, S);
  return S->tracer ? S->tracer->now : 0;
}

/* Records a put or take of `who` on the channel. */
static void record_move(Trace *t, const Chan *ch, Actor who, bool is_put, int how) {
  uint64_t seq = 0;
  uint8_t kind = ch->buf.kind;
  if (LIKELY(kind <= BUFFER_FIXED && !(ch->flags & CHAN_XFORM))) {
    how |= TRACE_FIFO;
    seq = is_put || kind == BUFFER_NONE ? ch->put_total : ch->take_total;
  } else if (kind < BUFFER_POLICY) {
    seq = ch->buf.count;
  } else {
    seq = TRACE_UNCOUNTED;
  }
  if (ch->flags & CHAN_GO) how |= TRACE_RESULT;
  record(t, is_put ? TRACE_PUT : TRACE_TAKE, who, (uint32_t)ch->id, seq, how);
}

/* Records a put or take of `who` on the channel, and counts it. */
static inline void moved(const Sched *S, const Chan *ch, Actor who, bool is_put, int how) {
  Trace *t = S->trace;
  if (UNLIKELY(trace_label(ch) == TRACE_HIDDEN || who.label == TRACE_HIDDEN)) return;
  if (UNLIKELY(ch->flags & CHAN_GO) && is_put) who = actor_of_go(CONTAINER_OF(ch, const Go, chan));
  if (t->ring) record_move(t, ch, who, is_put, how);
  if (LIKELY(t->edges)) trace_edges_count(t, ch, who.label, is_put);
}

/* ---- without a ring, puts and takes are only counted, and that must be fast ---- */

/* Whether all there is to do for a value on the channel is to count it. */
static inline bool is_plain(const Trace *t, const Chan *ch) {
  return LIKELY(t->edges && !t->ring && !(ch->flags & CHAN_GO)) && trace_label_is_shown(trace_label(ch));
}

static inline void count(Trace *t, const Chan *ch, uint16_t label, bool is_put) {
  if (LIKELY(label != TRACE_HIDDEN)) trace_edges_count(t, ch, label, is_put);
}

/* Channels that are not in the list. */
enum { UNLISTED = CHAN_GO | CHAN_TIMEOUT | CHAN_DONE | CHAN_BARE };

/* Adds the channel at index `at` to the list, if it is not there, makes room for edges, and calls the function of its
   tap for the value at index `value`, or not (0). */
static void after(lua_State *L, Chan *ch, int at, int value, bool waits) {
  if (UNLIKELY(!ch->buf.label && !(ch->flags & UNLISTED))) {
    lua_pushvalue(L, at);
    call_help(L, ADD_CHAN);
  }
  const Trace *t = ch->sched->trace;
  if (t && t->is_tight) {
    lua_pushnil(L);
    call_help(L, GROW_EDGES);
    t = ch->sched->trace;
  }
  if (LIKELY(!value || !t || t->tapped != ch) || !lua_checkstack(L, 2 * STACK_TO_HELP)) return;
  trace_fetch(L, TRACE_TAP);
  lua_pushvalue(L, value);
  lua_pushboolean(L, waits);
  error_call(L, 2, "a function that is called for values on a channel", at);
}

/* Whether `after` has something to do for one of the channels on which an alt has parked. */
static bool needs_lua(const Trace *t, const Alt *alt) {
  if (alt->state != ALT_PARKED) return false;
  for (uint32_t i = 0; i < alt->count; i++) {
    const Chan *ch = alt->waiters[i].chan;
    if (UNLIKELY(t->tapped == ch || !(ch->buf.label || ch->flags & UNLISTED))) return true;
  }
  return false;
}

/* Calls `after` for the channels on which an alt has parked. It may run finalizers, after which the alt is looked at
   again. */
static void after_park(lua_State *L, const Alt *alt) {
  int top = lua_gettop(L);
  for (uint32_t i = 0; alt->state == ALT_PARKED && i < alt->count && alt_is_active(alt); i++) {
    const Waiter *w = &alt->waiters[i];
    if (!lua_checkstack(L, LUA_MINSTACK) || !lua_checkstack(alt->co, 2)) return;
    lua_pushvalue(alt->co, w->at);
    if (w->is_put) lua_pushvalue(alt->co, w->at + 1);
    else lua_pushnil(alt->co);
    lua_xmove(alt->co, L, 2);
    after(L, w->chan, top + 1, w->is_put ? top + 2 : 0, true);
    lua_settop(L, top);
  }
}

/* ---- the places ---- */

/* Makes room for edges, and finds the label of the go block. Returns whether it is still to be resumed. */
static bool prepare(lua_State *L, const Trace *t, const Go *go) {
  int top = lua_gettop(L);
  root_push(L, go); /* keeps it alive: a finalizer may end it */
  if (t->is_tight) {
    lua_pushnil(L);
    call_help(L, GROW_EDGES);
  }
  if (!go->chan.buf.label && go->alt.state == ALT_READY) {
    lua_pushvalue(L, top + 1);
    call_help(L, LABEL_GO);
  }
  bool is_ready = go->alt.state == ALT_READY;
  lua_settop(L, top);
  return is_ready;
}

/* trace_run with all that is rare, or needs a ring. */
NOINLINE static bool run_slowly(lua_State *L, Sched *S, Go *go) {
  Trace *t = S->tracer;
  if (!go->chan.buf.label || t->is_tight) {
    if (!prepare(L, t, go)) return false;
    if (!S->trace) return true;
  }
  trace_set_running(t, go);
  if (t->ring) {
    look_at_clock(t, S);
    record(t, TRACE_RUN, actor_of_go(go), 0, 0, 0);
  }
  return true;
}

bool trace_run(lua_State *L, Sched *S, Go *go) {
  Trace *t = S->trace;
  if (t->ring || UNLIKELY(!go->chan.buf.label || t->is_tight)) return run_slowly(L, S, go);
  trace_set_running(t, go);
  return true;
}

/* What a parked alt waits for. */
static void record_park(Sched *S, Actor who, const Alt *alt) {
  Trace *t = S->trace;
  if (alt->state == ALT_PARKED && alt->count) {
    const Waiter *w = &alt->waiters[0];
    int what = alt->flags & ALT_SELECT ? TRACE_ON_ALTS : w->is_put ? TRACE_ON_PUT : TRACE_ON_TAKE;
    record(t, TRACE_PARK, who, (uint32_t)w->chan->id, alt->count, what);
  } else {
    record(t, TRACE_PARK, who, 0, 0, alt->state == ALT_SLEEPING ? TRACE_ON_SLEEP : TRACE_ON_YIELD);
  }
}

/* trace_left with a ring. */
NOINLINE static void left_slowly(lua_State *L, Sched *S, const Alt *alt) {
  record_park(S, owner(S, alt), alt);
  if (needs_lua(S->trace, alt)) after_park(L, alt);
}

void trace_left(lua_State *L, Sched *S, const Alt *alt) {
  Trace *t = S->trace;
  if (UNLIKELY(!t)) return;
  if (!trace_running(t)) return; /* it has ended, and may be collected */
  trace_set_running(t, NULL);
  if (t->ring) left_slowly(L, S, alt);
  else if (UNLIKELY(needs_lua(t, alt))) after_park(L, alt);
}

void trace_main_leaves(lua_State *L, Sched *S) {
  Actor main_program = {0, TRACE_MAIN};
  const Alt *alt = &S->outside;
  set_main_running(S->trace, false);
  look_at_clock(S->trace, S);
  if (alt->state != ALT_PARKED) {
    record(S->trace, TRACE_PARK, main_program, 0, 0, TRACE_ON_LOOP);
    return;
  }
  record_park(S, main_program, alt);
  if (needs_lua(S->trace, alt)) after_park(L, alt);
}

void trace_main_runs(Sched *S) {
  set_main_running(S->trace, true);
  look_at_clock(S->trace, S);
  record(S->trace, TRACE_RUN, (Actor){0, TRACE_MAIN}, 0, 0, 0);
}

void trace_idle(Sched *S) {
  look_at_clock(S->trace, S);
  record(S->trace, TRACE_IDLE, (Actor){0, TRACE_DRIVER}, 0, 0, 0);
}

void trace_awake(Sched *S) { look_at_clock(S->trace, S); }

void trace_spawn(lua_State *L, Sched *S, Go *go, int at) {
  Actor parent = current(S);
  if (parent.label == TRACE_HIDDEN) {
    trace_hide(&go->chan);
    return;
  }
  record(S->trace, TRACE_SPAWN, parent, 0, go->chan.id, 0);
  /* A callback may never run. Others get their label when they do: the library names its own only after this. */
  if (!(go->alt.flags & ALT_CALLBACK)) return;
  lua_pushvalue(L, at);
  call_help(L, LABEL_GO);
}

void trace_end(Sched *S, const Go *go, bool is_error) {
  Trace *t = S->trace;
  record(t, TRACE_END, actor_of_go(go), 0, 0, is_error);
  if ((uint32_t)trace_running(t) == (uint32_t)go->chan.id) trace_set_running(t, NULL);
}

void trace_error(lua_State *L) { call_help(L, COPY_RING); }

void trace_timer(Sched *S, const Alt *alt) { record(S->trace, TRACE_TIMER, owner(S, alt), 0, 0, 0); }

void trace_born(lua_State *L, Sched *S, int at) {
  Chan *ch = (Chan *)lua_touserdata(L, at);
  if (S->current && S->current->chan.buf.label == TRACE_HIDDEN) {
    trace_hide(ch);
    return;
  }
  trace_list_add(L, S->listing, at);
  if (S->trace && S->trace->is_tight) trace_edges_grow(L, S->trace);
  if (S->trace) record(S->trace, TRACE_CHAN, current(S), (uint32_t)ch->id, ch->buf.label, 0);
}

/* trace_put with all that is rare, or needs a ring. */
NOINLINE static void put_slowly(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  Sched *S = ch->sched;
  int how = taker ? TRACE_DIRECT : 0;
  moved(S, ch, current(S), true, how);
  if (taker) moved(S, ch, owner(S, taker), false, how | TRACE_WAITED);
  const Trace *t = S->trace;
  if (UNLIKELY(t->tapped == ch || !ch->buf.label || t->is_tight)) after(L, ch, at, value, false);
}

void trace_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  const Sched *S = ch->sched;
  Trace *t = S->trace;
  if (!is_plain(t, ch) || UNLIKELY(t->tapped == ch || t->is_tight)) {
    put_slowly(L, ch, at, value, taker);
    return;
  }
  count(t, ch, current_label(S), true);
  if (taker) count(t, ch, owner_label(S, taker), false);
}

void trace_take(Chan *ch, const Alt *putter) {
  const Sched *S = ch->sched;
  if (is_plain(S->trace, ch)) {
    if (putter) count(S->trace, ch, owner_label(S, putter), true);
    count(S->trace, ch, current_label(S), false);
    return;
  }
  int how = putter ? TRACE_DIRECT : 0;
  if (putter) moved(S, ch, owner(S, putter), true, how | TRACE_WAITED);
  moved(S, ch, current(S), false, how);
}

void trace_admit(Chan *ch, const Alt *putter) { moved(ch->sched, ch, owner(ch->sched, putter), true, TRACE_WAITED); }

void trace_serve(Chan *ch, const Alt *taker) { moved(ch->sched, ch, owner(ch->sched, taker), false, TRACE_WAITED); }

void trace_shared(const Chan *ch, const Alt *alt, bool is_put) {
  const Sched *S = ch->sched;
  moved(S, ch, alt ? owner(S, alt) : current(S), is_put, alt ? TRACE_WAITED : 0);
}

void trace_close(const Chan *ch) {
  const Sched *S = ch->sched;
  if (trace_label(ch) == TRACE_HIDDEN) return;
  int how = (ch->flags & CHAN_GO ? TRACE_RESULT : 0) | (ch->flags & CHAN_TIMEOUT ? TRACE_TIMEOUT : 0);
  Actor who = ch->flags & CHAN_GO ? actor_of_go(CONTAINER_OF(ch, const Go, chan)) : current(S);
  record(S->trace, TRACE_CLOSE, who, (uint32_t)ch->id, 0, how);
}

/* ---- switching on and off ---- */

/* Sets what the places test. */
static void set_places(Sched *S, Trace *t) {
  bool is_on = t->holds[1] || t->holds[2] || t->is_tapped;
  if (is_on && !S->trace) {
    t->now = 0; /* so that the clock may begin where it is */
    t->offset = 0;
    t->was_virtual = S->world.clock.is_virtual;
    if (S->current) trace_set_running(t, S->current);
    else set_main_running(t, !S->running);
  }
  S->trace = is_on ? t : NULL;
  S->listing = t->holds[0] ? t : NULL;
}

/* Makes the trace of the scheduler, off. May raise. */
static Trace *make(lua_State *L, Sched *S) {
  if (S->tracer) return S->tracer;
  int top = lua_gettop(L);
  Trace *t = (Trace *)lua_newuserdatauv(L, sizeof(Trace), TRACE_NUSER);
  *t = (Trace){.nlabels = TRACE_FIRST};
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, help, 1);
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

/* Makes a ring of at least so many records, unless there is one. May raise. */
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
  trace_kept_close(L, t);
  t->ring = NULL;
  t->mask = 0;
  t->began = t->next;
  lua_pushnil(L);
  trace_store(L, TRACE_RING_AT);
}

/* The parts, in the order of Trace.holds. */
enum { NPARTS = 3 };

/* `parts` with all that they need. */
static unsigned with_list(unsigned parts) { return parts ? parts | TRACE_LIST : 0; }

/* Records who waits, and who runs. */
static void record_beginning(lua_State *L, Sched *S) {
  look_at_clock(S->trace, S);
  for (uint32_t slot = 1; slot <= S->roots.size; slot++) {
    root_push_slot(L, slot);
    const Go *go = (const Go *)lua_touserdata(L, -1);
    if (go && (go->alt.state == ALT_PARKED || go->alt.state == ALT_SLEEPING)) record_park(S, actor_of_go(go), &go->alt);
    lua_pop(L, 1);
  }
  record(S->trace, TRACE_RUN, current(S), 0, 0, 0);
}

void trace_hold(lua_State *L, Sched *S, unsigned parts, uint32_t records) {
  parts = with_list(parts);
  Trace *t = make(L, S);
  /* What may raise comes first: what is opened but not held is closed at the next release. */
  bool is_new = parts && !t->holds[0];
  if (is_new) trace_list_open(L);
  if (parts & TRACE_EDGES) trace_edges_open(L, t);
  const TraceRecord *ring = t->ring;
  if (parts & TRACE_RING) open_ring(L, t, records);
  bool is_new_ring = t->ring != ring;
  for (int i = 0; i < NPARTS; i++) t->holds[i] += parts >> i & 1;
  bool was_on = S->trace != NULL;
  set_places(S, t);
  if (is_new || (S->trace && !was_on)) {
    lua_pushnil(L);
    call_help(L, SCAN);
  }
  if (is_new_ring && S->trace) record_beginning(L, S); /* a finalizer may have released it */
}

void trace_release(lua_State *L, Sched *S, unsigned parts) {
  Trace *t = S->tracer;
  parts = with_list(parts);
  for (int i = 0; i < NPARTS; i++) t->holds[i] -= parts >> i & 1;
  set_places(S, t);
  if (!t->holds[2] && t->ring) close_ring(L, t);
  if (!t->holds[1] && t->edges) trace_edges_close(L, t);
  if (!t->holds[0]) trace_list_close(L, t);
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
  set_places(S, t);
}
