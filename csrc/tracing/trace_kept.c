/* trace_kept.c: see trace_kept.h. */
#include "tracing/trace_kept.h"

#include "tracing/trace_store.h"

void trace_kept_hear(lua_State *L, Trace *t) {
  if (!t->ring || lua_isnil(L, -1)) {
    lua_pop(L, 1);
    trace_kept_close(L, t);
    return;
  }
  trace_store(L, TRACE_ON_ERROR);
  t->hears_errors = true;
}

/* Makes room for the copy: of a large ring only the newest records are copied. */
static void make_room(lua_State *L, Trace *t) {
  uint32_t size = t->mask < TRACE_DEFAULT ? t->mask + 1 : TRACE_DEFAULT;
  if (t->kept && t->kept_mask + 1 >= size) return;
  TraceRecord *kept = (TraceRecord *)lua_newuserdatauv(L, size * sizeof(TraceRecord), 0);
  if (!t->hears_errors) { /* a finalizer has ended the recording meanwhile */
    lua_pop(L, 1);        /* seldom covered: a finalizer ran at this very allocation */
    return;
  }
  trace_store(L, TRACE_KEPT_AT);
  t->kept = kept;
  t->kept_mask = size - 1;
  t->kept_next = 0;
}

void trace_kept_copy(lua_State *L, Trace *t, int64_t now) {
  make_room(L, t);
  if (!t->hears_errors) {
    lua_pop(L, 1); /* seldom covered: see make_room */
    return;
  }
  uint64_t first = trace_first(t);
  if (t->next - first > t->kept_mask) first = t->next - t->kept_mask - 1;
  /* What is there from the copy before stays. */
  for (uint64_t n = t->kept_next > first ? t->kept_next : first; n < t->next; n++)
    t->kept[n & t->kept_mask] = *trace_at(t, n);
  t->kept_first = first;
  t->kept_next = t->next;
  t->kept_now = now;
  trace_store(L, TRACE_KEPT_FOR);
}

void trace_kept_push_error(lua_State *L) { trace_fetch(L, TRACE_KEPT_FOR); }

void trace_kept_due(lua_State *L, Trace *t, int at) {
  if (!t->hears_errors) return;
  trace_kept_push_error(L);
  t->is_kept_due = lua_rawequal(L, -1, at);
  lua_pop(L, 1);
}

void trace_kept_report(lua_State *L, Trace *t) {
  if (!t->hears_errors) return;
  Sched *S = sched_self(L);
  bool is_kept = t->is_kept_due;
  t->is_kept_due = false;
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  const char *outer = sched_set_inside(S, "the flight recorder");
  trace_fetch(L, TRACE_ON_ERROR);
  lua_pushboolean(L, is_kept);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    lua_pop(L, 1); /* uncovered: only when memory runs out */
  }
  sched_set_inside(S, outer);
}

void trace_kept_close(lua_State *L, Trace *t) {
  t->hears_errors = t->is_kept_due = false;
  t->kept = NULL;
  t->kept_next = 0;
  for (int key = TRACE_KEPT_AT; key <= TRACE_ON_ERROR; key++) {
    lua_pushnil(L);
    trace_store(L, key);
  }
}
