/* trace_record.h: writes records to the ring of a trace. Inline, since it runs for each message. */
#ifndef RUNNEL_TRACE_RECORD_H
#define RUNNEL_TRACE_RECORD_H

#include "core/others.h"
#include "tracing/story.h"
#include "tracing/trace_state.h"

/* ---- the actor of a record ---- */

typedef struct TraceActor {
  uint32_t id;    /* of a go block, or 0 */
  uint16_t label; /* its label */
} TraceActor;

static inline TraceActor trace_actor_of(const Go *go) {
  return (TraceActor){(uint32_t)go->chan.id, go->chan.buf.label};
}

/* The label of the running code. */
static inline uint16_t trace_current_label(const Sched *S) {
  if (LIKELY(S->current != NULL)) return S->current->chan.buf.label;
  return S->running ? TRACE_DRIVER : TRACE_MAIN;
}

/* The running code. */
static inline TraceActor trace_current(const Sched *S) {
  return (TraceActor){S->current ? (uint32_t)S->current->chan.id : 0, trace_current_label(S)};
}

/* The label of the owner of an alt. */
static inline uint16_t trace_owner_label(const Sched *S, const Alt *alt) {
  return alt == &S->outside ? TRACE_MAIN : CONTAINER_OF(alt, const Go, alt)->chan.buf.label;
}

/* The owner of an alt. */
static inline TraceActor trace_owner(const Sched *S, const Alt *alt) {
  return (TraceActor){(uint32_t)sched_owner_id(S, alt), trace_owner_label(S, alt)};
}

/* ---- records ---- */

/* Writes a record, if there is a ring. */
static inline void trace_record(Trace *t, TraceKind kind, TraceActor who, uint32_t chan, uint64_t seq, int what) {
  if (!t->ring || UNLIKELY(who.label == TRACE_HIDDEN)) return;
  t->ring[t->next++ & t->mask] = (TraceRecord){.time = t->now,
                                               .go = who.id,
                                               .chan = chan,
                                               .seq = (uint32_t)seq,
                                               .kind = (uint8_t)kind,
                                               .what = (uint8_t)what,
                                               .label = who.label};
  if (UNLIKELY(t->story)) story_add(t->story, (int)kind, who.id, who.label, chan, seq, what);
}

/* Reads the clock, if there is a ring. A simulation has a clock of its own, which begins at 0; records go on where they
   were. */
static inline void trace_read_clock(Trace *t, const Sched *S) {
  if (!t->ring) return;
  const Clock *clock = &S->world.clock;
  int64_t now = clock_now(clock) + S->world.steps_ns;
  if (UNLIKELY(clock->is_virtual != t->was_virtual || now + t->offset < t->now)) {
    t->was_virtual = clock->is_virtual;
    t->offset = t->now - now;
  }
  t->now = now + t->offset;
}

/* The time that a record would have now, in ns. */
static inline int64_t trace_now(const Sched *S) {
  if (S->tracer) trace_read_clock(S->tracer, S);
  return S->tracer ? S->tracer->now : 0;
}

/* Records what a parked alt waits for. */
static inline void trace_record_park(const Sched *S, TraceActor who, const Alt *alt) {
  Trace *t = S->tracer;
  if (alt->count) {
    alt = others_shown(alt);
    const Waiter *w = alt_waiters(alt);
    int what = alt->flags & ALT_SELECT ? TRACE_ON_ALTS : w->is_put ? TRACE_ON_PUT : TRACE_ON_TAKE;
    trace_record(t, TRACE_PARK, who, (uint32_t)w->chan->id, alt->count, what);
    for (uint32_t i = 1; UNLIKELY(t->story != NULL) && i < alt->count && i < STORY_NAMED; i++) {
      story_add(t->story, STORY_PARK_TOO, who.id, who.label, (uint32_t)w[i].chan->id, 0, 0);
    }
  } else {
    trace_record(t, TRACE_PARK, who, 0, 0, alt->state == ALT_SLEEPING ? TRACE_ON_SLEEP : TRACE_ON_YIELD);
  }
}

#endif
