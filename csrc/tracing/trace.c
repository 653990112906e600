/* trace.c: see trace.h. */
#include "tracing/trace.h"

#include <lauxlib.h>

#include "errors/error.h"
#include "errors/unhandled.h"
#include "lifetimes/root.h"
#include "states/shared_wait.h"
#include "tracing/context_pass.h"
#include "tracing/trace_copy.h"
#include "tracing/trace_edges.h"
#include "tracing/trace_help.h"
#include "tracing/trace_list.h"
#include "tracing/trace_record.h"
#include "tracing/trace_store.h"

/* Records a put or take of `who` on the channel. */
static void record_move(const Sched *S, const Chan *ch, TraceActor who, bool is_put, int how) {
  uint64_t seq = 0;
  uint8_t kind = ch->buf.kind;
  if (LIKELY(kind <= BUFFER_FIXED && !(ch->flags & CHAN_SPECIAL))) {
    how |= TRACE_FIFO;
    seq = is_put || kind == BUFFER_NONE ? ch->put_total : ch->take_total;
  } else if (kind < BUFFER_POLICY) {
    seq = ch->buf.count;
  } else if (kind == BUFFER_SHARED) {
    how |= TRACE_BETWEEN;
    seq = S->sharing->number;
  } else {
    seq = TRACE_UNCOUNTED;
  }
  if (ch->flags & CHAN_GO) how |= TRACE_RESULT;
  trace_record(S->tracer, is_put ? TRACE_PUT : TRACE_TAKE, who, (uint32_t)ch->id, seq, how);
}

/* Records a put or take of `who` on the channel, and counts it. */
static inline void moved(const Sched *S, const Chan *ch, TraceActor who, bool is_put, int how) {
  Trace *t = S->tracer;
  if (UNLIKELY(trace_label(ch) == TRACE_HIDDEN || who.label == TRACE_HIDDEN)) return;
  if (UNLIKELY(ch->flags & CHAN_GO) && is_put) who = trace_actor_of(CONTAINER_OF(ch, const Go, chan));
  if (t->ring) record_move(S, ch, who, is_put, how);
  if (LIKELY(t->edges)) trace_edges_count(t, ch, who.label, is_put);
}

/* Channels that are not in the list. */
enum { UNLISTED = CHAN_GO | CHAN_CLOSES_ITSELF };

/* Adds the channel at index `at` to the list, if it is not there, makes room for edges, and calls the function of its
   tap for the value at index `value`, or not (0). */
static void after(lua_State *L, Chan *ch, int at, int value, bool waits) {
  if (UNLIKELY(!ch->buf.label && !(ch->flags & UNLISTED))) {
    lua_pushvalue(L, at);
    trace_call_help(L, TRACE_ADD_CHAN);
  }
  const Sched *S = ch->sched;
  if (trace_is_on(S) && S->tracer->is_tight) {
    lua_pushnil(L);
    trace_call_help(L, TRACE_GROW_EDGES);
  }
  if (LIKELY(!value || !trace_is_on(S) || S->tracer->tapped != ch) || !lua_checkstack(L, 2 * TRACE_STACK)) return;
  trace_fetch(L, TRACE_TAP);
  lua_pushvalue(L, value);
  lua_pushboolean(L, waits);
  (void)error_call(L, 2, "a function that is called for values on a channel", at);
}

/* Whether `after` has something to do for one of the channels on which an alt has parked. */
static bool needs_lua(const Trace *t, const Alt *alt) {
  for (uint32_t i = 0; i < alt->count; i++) {
    const Chan *ch = alt_waiters(alt)[i].chan;
    if (UNLIKELY(t->tapped == ch || !(ch->buf.label || ch->flags & UNLISTED))) return true;
  }
  return false;
}

/* Calls `after` for the channels on which an alt has parked. It may run finalizers, after which the alt is looked at
   again. */
static void after_park(lua_State *L, const Alt *alt) {
  int top = lua_gettop(L);
  for (uint32_t i = 0; i < alt->count && alt_is_active(alt); i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    if (!lua_checkstack(L, LUA_MINSTACK) || !lua_checkstack(alt->co, 2)) return;
    lua_pushvalue(alt->co, w->at);
    if (w->is_put) lua_pushvalue(alt->co, w->at + 1);
    else lua_pushnil(alt->co);
    lua_xmove(alt->co, L, 2);
    after(L, w->chan, top + 1, w->is_put ? top + 2 : 0, true);
    lua_settop(L, top);
  }
}

/* ---- the events: see observe.h. While they come, the trace is on, until one of them runs Lua code ---- */

/* Makes room for edges, and finds the label of the go block. Returns whether it is still to be resumed. */
static bool prepare(lua_State *L, const Trace *t, const Go *go) {
  int top = lua_gettop(L);
  root_push(L, go); /* keeps it alive: a finalizer may end it */
  if (t->is_tight) {
    lua_pushnil(L);
    trace_call_help(L, TRACE_GROW_EDGES);
  }
  if (!go->chan.buf.label && go->alt.state == ALT_READY) {
    lua_pushvalue(L, top + 1);
    trace_call_help(L, TRACE_LABEL_GO);
  }
  bool is_ready = go->alt.state == ALT_READY;
  lua_settop(L, top);
  return is_ready;
}

static bool on_run(lua_State *L, Sched *S, Go *go) {
  Trace *t = S->tracer;
  if (!go->chan.buf.label || t->is_tight) {
    if (!prepare(L, t, go)) return false;
    if (!trace_is_on(S)) return true;
  }
  trace_set_running(t, go);
  if (t->ring) {
    if (UNLIKELY(t->story)) t->story->running = go;
    trace_read_clock(t, S);
    trace_record(t, TRACE_RUN, trace_actor_of(go), 0, 0, 0);
  }
  return true;
}

static void on_left(lua_State *L, Sched *S, const Alt *alt) {
  Trace *t = S->tracer;
  if (!trace_running(t)) return; /* it has ended, and may be collected */
  trace_set_running(t, NULL);
  if (t->ring) trace_record_park(S, trace_owner(S, alt), alt);
  if (UNLIKELY(needs_lua(t, alt))) after_park(L, alt);
}

static void on_main_leaves(lua_State *L, Sched *S) {
  TraceActor main_program = {0, TRACE_MAIN};
  const Alt *alt = &S->outside;
  trace_set_main_running(S->tracer, false);
  trace_read_clock(S->tracer, S);
  if (alt->state != ALT_PARKED) {
    trace_record(S->tracer, TRACE_PARK, main_program, 0, 0, TRACE_ON_LOOP);
    return;
  }
  trace_record_park(S, main_program, alt);
  if (needs_lua(S->tracer, alt)) after_park(L, alt);
}

static void on_main_runs(lua_State *L, Sched *S) {
  (void)L;
  trace_set_main_running(S->tracer, true);
  trace_read_clock(S->tracer, S);
  trace_record(S->tracer, TRACE_RUN, (TraceActor){0, TRACE_MAIN}, 0, 0, 0);
}

static void on_idle(Sched *S) {
  trace_read_clock(S->tracer, S);
  trace_record(S->tracer, TRACE_IDLE, (TraceActor){0, TRACE_DRIVER}, 0, 0, 0);
}

static void on_awake(Sched *S) { trace_read_clock(S->tracer, S); }

static void on_spawn(lua_State *L, Sched *S, Go *go, int at) {
  if (UNLIKELY(S->tracer->holds[3])) context_pass(L, S, at);
  TraceActor parent = trace_current(S);
  if (parent.label == TRACE_HIDDEN) {
    chan_hide(&go->chan);
    return;
  }
  trace_record(S->tracer, TRACE_SPAWN, parent, 0, go->chan.id, 0);
  /* A callback may never run. Others get their label when they do: the library names its own only after this. */
  if (!(go->alt.flags & ALT_CALLBACK)) return;
  lua_pushvalue(L, at);
  trace_call_help(L, TRACE_LABEL_GO);
}

static void on_end(Sched *S, const Go *go, bool is_error) {
  Trace *t = S->tracer;
  trace_record(t, TRACE_END, trace_actor_of(go), 0, 0, is_error);
  if ((uint32_t)trace_running(t) == (uint32_t)go->chan.id) trace_set_running(t, NULL);
}

static void on_slept(Sched *S, const Alt *alt) { trace_record(S->tracer, TRACE_TIMER, trace_owner(S, alt), 0, 0, 0); }

static void on_born(lua_State *L, Sched *S, int at) {
  Chan *ch = (Chan *)lua_touserdata(L, at);
  if (S->current && S->current->chan.buf.label == TRACE_HIDDEN) {
    chan_hide(ch);
    return;
  }
  Trace *t = S->tracer;
  trace_list_add(L, t, at);
  if (!trace_is_on(S)) return;
  if (t->is_tight) trace_edges_grow(L, t);
  trace_record(t, TRACE_CHAN, trace_current(S), (uint32_t)ch->id, ch->buf.label, 0);
}

/* Pushes the newest value of a channel whose slots are user values. */
static void push_newest(lua_State *L, const Chan *ch, int at) {
  Buffer rest = ch->buf;
  rest.count--;
  lua_getiuservalue(L, at, rest.base + (int)buffer_tail(&rest));
}

static void on_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  Sched *S = ch->sched;
  int how = taker ? TRACE_DIRECT : 0;
  moved(S, ch, trace_current(S), true, how);
  if (taker) moved(S, ch, trace_owner(S, taker), false, how | TRACE_WAITED);
  const Trace *t = S->tracer;
  if (LIKELY(t->tapped != ch && ch->buf.label && !t->is_tight)) return;
  int top = lua_gettop(L);
  if (!value) push_newest(L, ch, at);
  after(L, ch, at, value ? value : top + 1, false);
  lua_settop(L, top);
}

static void on_take(Chan *ch, const Alt *putter) {
  const Sched *S = ch->sched;
  int how = putter ? TRACE_DIRECT : 0;
  if (putter) moved(S, ch, trace_owner(S, putter), true, how | TRACE_WAITED);
  moved(S, ch, trace_current(S), false, how);
}

void trace_vain(const Sched *S, const Chan *ch, bool is_offer) {
  Trace *t = S->tracer;
  if (!t || !t->story || trace_label(ch) == TRACE_HIDDEN) return;
  TraceActor who = trace_current(S);
  if (who.label == TRACE_HIDDEN) return;
  story_add(t->story, is_offer ? STORY_OFFER_VAIN : STORY_POLL_VAIN, who.id, who.label, (uint32_t)ch->id, 0,
            (ch->flags & CHAN_GO) || ch->buf.kind != BUFFER_NONE);
}

static void on_admit(Chan *ch, const Alt *putter) {
  moved(ch->sched, ch, trace_owner(ch->sched, putter), true, TRACE_WAITED);
}

static void on_serve(Chan *ch, const Alt *taker) {
  moved(ch->sched, ch, trace_owner(ch->sched, taker), false, TRACE_WAITED);
}

static void on_shared(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put) {
  const Sched *S = ch->sched;
  moved(S, ch, alt ? trace_owner(S, alt) : trace_current(S), is_put, alt ? TRACE_WAITED : 0);
  if (!alt) after(L, ch, at, 0, false);
}

static void on_close(const Chan *ch) {
  const Sched *S = ch->sched;
  if (trace_label(ch) == TRACE_HIDDEN) return;
  int how = (ch->flags & CHAN_GO ? TRACE_RESULT : 0) | (ch->flags & CHAN_TIMEOUT ? TRACE_TIMEOUT : 0);
  TraceActor who = ch->flags & CHAN_GO ? trace_actor_of(CONTAINER_OF(ch, const Go, chan)) : trace_current(S);
  trace_record(S->tracer, TRACE_CLOSE, who, (uint32_t)ch->id, 0, how);
}

/* Copies the ring for the error whose record is on top of L, unless the copy is for one that may still be reported. */
static void on_died(lua_State *L, Sched *S) {
  if (!S->tracer->hears_errors) return;
  trace_copy_push_error(L);
  bool is_needed = lua_istable(L, -1) && unhandled_may_come(L);
  lua_pop(L, 1);
  if (is_needed) return;
  lua_pushvalue(L, -1);
  trace_call_help(L, TRACE_COPY_RING);
}

static void on_due(lua_State *L, Sched *S, int at) { trace_copy_due(L, S->tracer, at); }

static void on_report(lua_State *L, Sched *S) { trace_copy_report(L, S->tracer); }

/* ---- while puts and takes are only counted, which must be fast ---- */

/* Whether all there is to do for a value on the channel is to count it. */
static inline bool is_plain(const Chan *ch) {
  return LIKELY(!(ch->flags & CHAN_GO)) && trace_label_is_shown(trace_label(ch));
}

static inline void count(Trace *t, const Chan *ch, uint16_t label, bool is_put) {
  if (LIKELY(label != TRACE_HIDDEN)) trace_edges_count(t, ch, label, is_put);
}

static bool count_run(lua_State *L, Sched *S, Go *go) {
  Trace *t = S->tracer;
  if (UNLIKELY(!go->chan.buf.label || t->is_tight)) return on_run(L, S, go);
  trace_set_running(t, go);
  return true;
}

/* What is left of on_left when channels on which the alt waits may not be in the list. */
NOINLINE static void park_slowly(lua_State *L, const Trace *t, const Alt *alt) {
  if (needs_lua(t, alt)) after_park(L, alt);
}

static void count_left(lua_State *L, Sched *S, const Alt *alt) {
  Trace *t = S->tracer;
  if (!trace_running(t)) return; /* it has ended, and may be collected */
  trace_set_running(t, NULL);
  if (alt->count > 1 || (alt->count && UNLIKELY(!trace_label(alt_waiters(alt)->chan)))) park_slowly(L, t, alt);
}

static void count_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  const Sched *S = ch->sched;
  if (!is_plain(ch) || UNLIKELY(S->tracer->is_tight)) {
    on_put(L, ch, at, value, taker);
    return;
  }
  count(S->tracer, ch, trace_current_label(S), true);
  if (taker) count(S->tracer, ch, trace_owner_label(S, taker), false);
}

static void count_take(Chan *ch, const Alt *putter) {
  const Sched *S = ch->sched;
  if (!is_plain(ch)) {
    on_take(ch, putter);
    return;
  }
  if (putter) count(S->tracer, ch, trace_owner_label(S, putter), true);
  count(S->tracer, ch, trace_current_label(S), false);
}

const Observer trace_counts_observer = {
    .spawn = on_spawn,
    .run = count_run,
    .left = count_left,
    .end = on_end,
    .main_leaves = on_main_leaves,
    .main_runs = on_main_runs,
    .put = count_put,
    .take = count_take,
    .admit = on_admit,
    .serve = on_serve,
    .shared = on_shared,
};

const Observer trace_observer = {
    .spawn = on_spawn,
    .run = on_run,
    .left = on_left,
    .slept = on_slept,
    .end = on_end,
    .main_leaves = on_main_leaves,
    .main_runs = on_main_runs,
    .idle = on_idle,
    .awake = on_awake,
    .born = on_born,
    .put = on_put,
    .take = on_take,
    .admit = on_admit,
    .serve = on_serve,
    .shared = on_shared,
    .close = on_close,
    .died = on_died,
    .due = on_due,
    .report = on_report,
};
