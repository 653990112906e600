/* trace_copy.c: see trace_copy.h. */
#include "tracing/trace_copy.h"

#include "tracing/trace_store.h"

void trace_copy_hear(lua_State *L, Trace *t) {
  if (!t->ring || lua_isnil(L, -1)) {
    lua_pop(L, 1);
    trace_copy_close(L, t);
    return;
  }
  trace_store(L, TRACE_ON_ERROR);
  t->hears_errors = true;
}

/* Makes room for the copy: of a large ring only the newest records are copied. */
static void make_room(lua_State *L, Trace *t) {
  uint32_t size = t->mask < TRACE_DEFAULT ? t->mask + 1 : TRACE_DEFAULT;
  if (t->copy && t->copy_mask + 1 >= size) return;
  TraceRecord *copy = (TraceRecord *)lua_newuserdatauv(L, size * sizeof(TraceRecord), 0);
  if (!t->hears_errors) { /* a finalizer has ended the recording meanwhile */
    lua_pop(L, 1);        /* seldom covered: a finalizer ran at this very allocation */
    return;
  }
  trace_store(L, TRACE_COPY_AT);
  t->copy = copy;
  t->copy_mask = size - 1;
  t->copy_next = 0;
}

void trace_copy_make(lua_State *L, Trace *t, int64_t now) {
  make_room(L, t);
  if (!t->hears_errors) {
    lua_pop(L, 1); /* seldom covered: see make_room */
    return;
  }
  uint64_t first = trace_first(t);
  if (t->next - first > t->copy_mask) first = t->next - t->copy_mask - 1;
  /* What is there from the copy before stays. */
  for (uint64_t n = t->copy_next > first ? t->copy_next : first; n < t->next; n++)
    t->copy[n & t->copy_mask] = *trace_at(t, n);
  t->copy_first = first;
  t->copy_next = t->next;
  t->copy_now = now;
  trace_store(L, TRACE_COPY_FOR);
}

void trace_copy_push_error(lua_State *L) { trace_fetch(L, TRACE_COPY_FOR); }

void trace_copy_due(lua_State *L, Trace *t, int at) {
  if (!t->hears_errors) return;
  trace_copy_push_error(L);
  t->is_copy_due = lua_rawequal(L, -1, at);
  lua_pop(L, 1);
}

void trace_copy_report(lua_State *L, Trace *t) {
  if (!t->hears_errors) return;
  Sched *S = sched_self(L);
  bool is_copied = t->is_copy_due;
  t->is_copy_due = false;
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  const char *outer = S->inside;
  S->inside = "the flight recorder";
  trace_fetch(L, TRACE_ON_ERROR);
  lua_pushboolean(L, is_copied);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    lua_pop(L, 1); /* uncovered: only when memory runs out */
  }
  S->inside = outer;
}

void trace_copy_close(lua_State *L, Trace *t) {
  t->hears_errors = t->is_copy_due = false;
  t->copy = NULL;
  t->copy_next = 0;
  for (int key = TRACE_COPY_AT; key <= TRACE_ON_ERROR; key++) {
    lua_pushnil(L);
    trace_store(L, key);
  }
}
