/* lua_trace.c: core.internal.trace: the trace for the library's Lua modules, and for the host's prompt. */

#include <string.h>
#include <time.h>

#include "lifetimes/root.h"
#include "lua/check.h"
#include "lua/module.h"
#include "tracing/trace_context.h"
#include "tracing/trace_copy.h"
#include "tracing/trace_list.h"
#include "tracing/trace_record.h"
#include "tracing/trace_switch.h"

/* The parts at index i: a string of the letters l (list), e (edges), c (contexts), r (ring), and p: scans in parts. */
static unsigned check_parts(lua_State *L, int i) {
  unsigned parts = 0;
  for (const char *s = luaL_checkstring(L, i); *s; s++) {
    parts |= *s == 'l'   ? TRACE_LIST
             : *s == 'e' ? TRACE_EDGES
             : *s == 'c' ? TRACE_CONTEXTS
             : *s == 'p' ? TRACE_IN_PARTS
                         : TRACE_RING;
  }
  return parts;
}

/* hold(parts, records): see trace_hold. */
static int lua_hold(lua_State *L) {
  trace_hold(L, sched_self(L), check_parts(L, 1), (uint32_t)luaL_optinteger(L, 2, TRACE_DEFAULT));
  return 0;
}

/* scan(list or nil, i) -> list, i: for a list that is held without a scan ("p" among the parts of hold): scans the next
   of the go blocks that were there at the first call, which has no arguments. Nothing once all are scanned. */
static int lua_scan(lua_State *L) {
  enum { PART = 500 };
  Trace *t = sched_self(L)->tracer;
  lua_settop(L, 2);
  lua_Integer i = lua_tointeger(L, 2);
  if (lua_isnil(L, 1)) {
    lua_pushinteger(L, (lua_Integer)root_push_list(L) + 1); /* the number of the first element without a go block */
    lua_rawseti(L, -2, 0);
    lua_replace(L, 1);
  }
  lua_rawgeti(L, 1, 0);
  lua_Integer last = lua_tointeger(L, -1) - 1;
  lua_settop(L, 1);
  if (i >= last || !t || !t->holds[0]) return 0;
  i = trace_list_scan_part(L, t, 1, (uint32_t)i, (uint32_t)(last < i + PART ? last : i + PART));
  lua_pushinteger(L, i);
  return i < last ? 2 : 0;
}

/* release(parts) */
static int lua_release(lua_State *L) {
  trace_release(L, sched_self(L), check_parts(L, 1));
  return 0;
}

/* tap(ch, f or nil): see trace_tap. */
static int lua_tap(lua_State *L) {
  check_chan(L, 1, "tap", "tap(ch, f)");
  lua_settop(L, 2);
  trace_tap(L, sched_self(L), 1);
  return 0;
}

/* hide(ch) -> ch: hides a channel, or the go block whose result channel it is. */
static int lua_hide(lua_State *L) {
  chan_hide(check_chan(L, 1, "hide", "hide(ch)"));
  lua_settop(L, 1);
  return 1;
}

/* name(ch) -> the name of its label */
static int lua_name(lua_State *L) {
  trace_push_label(L, sched_self(L), trace_label(check_chan(L, 1, "name", "name(ch)")));
  return 1;
}

/* chans() -> a list of all channels */
static int lua_chans(lua_State *L) {
  Sched *S = sched_self(L);
  lua_newtable(L);
  lua_Integer n = 0;
  for (uint32_t i = 0; i < trace_nchans(S); i++) {
    if (trace_push_chan(L, S, i)) lua_rawseti(L, 1, ++n);
  }
  return 1;
}

/* part(i, n) -> a list of channels, one of their names, one of whether that is the line that made the channel, and i: at
   most n channels of the list, from the i-th entry down, or from the last one if i is nil; then i for the next call, 0 at
   the end. Entries move down only, so a walk misses no channel that exists all the time. It may meet one twice. */
static int lua_part(lua_State *L) {
  Sched *S = sched_self(L);
  lua_Integer i = luaL_optinteger(L, 1, UINT32_MAX), n = luaL_checkinteger(L, 2), k = 0;
  lua_settop(L, 0);
  for (int list = 0; list < 3; list++) lua_newtable(L);
  if (i > trace_nchans(S)) i = trace_nchans(S);
  while (i > 0 && k < n) {
    Chan *ch = i <= trace_nchans(S) ? trace_push_chan(L, S, (uint32_t)i - 1) : NULL; /* a finalizer may remove some */
    i--;
    if (!ch) continue;
    bool is_named = S->tracer->chans[i].is_named;
    lua_rawseti(L, 1, ++k);
    trace_push_label(L, S, ch->buf.label);
    lua_rawseti(L, 2, k);
    lua_pushboolean(L, !is_named);
    lua_rawseti(L, 3, k);
  }
  lua_pushinteger(L, i);
  return 4;
}

static void set_name(lua_State *L, Sched *S, const char *key, uint16_t label) {
  trace_push_label(L, S, label);
  lua_setfield(L, -2, key);
}

static void set_integer(lua_State *L, const char *key, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, key);
}

/* names() -> id -> name of each channel of the list, including collected ones whose records may be in the ring; id ->
   true for unnamed ones; and id -> the id of the shared channel for handles */
static int lua_names(lua_State *L) {
  Sched *S = sched_self(L);
  for (int i = 0; i < 3; i++) lua_newtable(L);
  for (uint32_t i = 0; i < trace_nchans(S); i++) {
    const TraceChan entry = S->tracer->chans[i];
    trace_push_label(L, S, entry.label);
    lua_rawseti(L, 1, (lua_Integer)entry.id);
    lua_pushboolean(L, !entry.is_named);
    lua_rawseti(L, 2, (lua_Integer)entry.id);
    if (!entry.shared) continue;
    lua_pushinteger(L, (lua_Integer)entry.shared);
    lua_rawseti(L, 3, (lua_Integer)entry.id);
  }
  return 3;
}

/* edges() -> a list of tables: name of the go blocks, channel (its id, or for result channels the name of their go
   blocks), puts, takes; and how many puts and takes were not counted */
static int lua_edges(lua_State *L) {
  Sched *S = sched_self(L);
  const Trace *t = trace_is_on(S) ? S->tracer : NULL;
  lua_newtable(L);
  lua_Integer n = 0;
  for (uint32_t i = 0; t && t->edges && i <= t->edges_mask; i++) {
    const TraceEdge edge = t->edges[i]; /* a finalizer may grow the table */
    if (!edge.key) continue;
    lua_createtable(L, 0, 4);
    set_name(L, S, "name", trace_edge_label(&edge));
    if (trace_edge_is_result(&edge)) set_name(L, S, "result", (uint16_t)trace_edge_chan(&edge));
    else set_integer(L, "channel", trace_whole_id(S->next_id, trace_edge_chan(&edge)));
    set_integer(L, "puts", edge.puts);
    set_integer(L, "takes", edge.takes);
    lua_rawseti(L, 1, ++n);
  }
  lua_pushinteger(L, t ? (lua_Integer)t->edges_lost : 0);
  return 2;
}

/* ring(copied) -> first, next, dropped, now: the numbers of the oldest record and of the next one; how many were
   overwritten; the time in ns. With `copied`, of the copy for an error (trace_copy.h). Nothing without a ring. */
static int lua_ring(lua_State *L) {
  Sched *S = sched_self(L);
  const Trace *t = S->tracer;
  bool copied = lua_toboolean(L, 1);
  if (!t || !t->ring || (copied && !t->copy)) return 0;
  lua_pushinteger(L, (lua_Integer)(copied ? t->copy_first : trace_first(t)));
  lua_pushinteger(L, (lua_Integer)(copied ? t->copy_next : t->next));
  lua_pushinteger(L, (lua_Integer)((copied ? t->copy_first : trace_first(t)) - t->began));
  lua_pushinteger(L, copied ? t->copy_now : trace_now(S));
  return 4;
}

/* Record n of the ring, or with `copied` of the copy for an error; NULL if it was overwritten. */
static const TraceRecord *find(const Trace *t, uint64_t n, bool copied) {
  if (!t || !t->ring) return NULL;
  if (copied) return t->copy && n >= t->copy_first && n < t->copy_next ? &t->copy[n & t->copy_mask] : NULL;
  return n >= trace_first(t) && n < t->next ? trace_at(t, n) : NULL;
}

/* Pushes the fields of a record: kind, time, go, chan, seq, what, label. `last`: no id is above it. */
static int push_record(lua_State *L, TraceRecord r, uint64_t last) {
  const uint64_t fields[] = {r.kind,
                             (uint64_t)r.time,
                             r.go ? trace_whole_id(last, r.go) : 0,
                             r.chan ? trace_whole_id(last, r.chan) : 0,
                             r.kind == TRACE_SPAWN ? trace_whole_id(last, r.seq) : r.seq,
                             r.what,
                             r.label};
  enum { FIELDS = sizeof fields / sizeof *fields };
  for (int i = 0; i < FIELDS; i++) lua_pushinteger(L, (lua_Integer)fields[i]);
  return FIELDS;
}

/* read(n, copied) -> kind, time, go, chan, seq, what, label: record n; nothing if it was overwritten. */
static int lua_read(lua_State *L) {
  const Sched *S = sched_self(L);
  const TraceRecord *r = find(S->tracer, (uint64_t)luaL_checkinteger(L, 1), lua_toboolean(L, 2));
  return r ? push_record(L, *r, S->next_id) : 0;
}

/* bytes() -> bytes, first, n, last: the records of the ring, as a string for another state; the number of the oldest
   one; how many they are; and an id above which there is none. Nothing without a ring. */
static int lua_bytes(lua_State *L) {
  const Sched *S = sched_self(L);
  const Trace *t = S->tracer;
  if (!t || !t->ring) return 0;
  luaL_Buffer b;
  uint64_t next = t->next; /* a finalizer's later records are left out */
  char *bytes = luaL_buffinitsize(L, &b, (size_t)(t->mask + 1) * sizeof(TraceRecord));
  uint64_t first = trace_first(t);
  size_t n = 0;
  for (uint64_t i = first; t->ring && i < next; i++, n++) {
    memcpy(bytes + n * sizeof(TraceRecord), trace_at(t, i), sizeof(TraceRecord));
  }
  luaL_pushresultsize(&b, n * sizeof(TraceRecord));
  lua_pushinteger(L, (lua_Integer)first);
  lua_pushinteger(L, (lua_Integer)n);
  lua_pushinteger(L, (lua_Integer)S->next_id);
  return 4;
}

/* read_bytes(bytes, i, last) -> the fields of record i, from 0, of a string from bytes(); nothing if there is none */
static int lua_read_bytes(lua_State *L) {
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  size_t i = (size_t)luaL_checkinteger(L, 2);
  if (i >= size / sizeof(TraceRecord)) return 0;
  TraceRecord r;
  memcpy(&r, bytes + i * sizeof r, sizeof r);
  return push_record(L, r, (uint64_t)luaL_checkinteger(L, 3));
}

/* pause(ms): waits, without running the scheduler. */
static int lua_pause(lua_State *L) {
  long ms = (long)luaL_checkinteger(L, 1);
  (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
  return 0;
}

/* on_error(f or nil): see trace_copy_hear */
static int lua_on_error(lua_State *L) {
  lua_settop(L, 1);
  Trace *t = sched_self(L)->tracer;
  if (t) trace_copy_hear(L, t);
  return 0;
}

/* context(block or nil) -> the context of the go block, or of the running code (trace_context.h) */
static int lua_context(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_settop(L, 1);
  bool has_block = !lua_isnil(L, 1);
  if (has_block) luaL_argcheck(L, chan_to_go(check_chan(L, 1, "context", "(block)")), 1, "a go block expected");
  if (S->tracer) trace_context_push(L, S, has_block ? 1 : 0);
  else lua_pushnil(L);
  return 1;
}

/* set_context(value): sets that of the running code. */
static int lua_set_context(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_settop(L, 1);
  if (S->tracer) trace_context_set(L, S, 0);
  return 0;
}

/* position() -> the number of the next record, and the id of the running go block, or 0 */
static int lua_position(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_pushinteger(L, S->tracer ? (lua_Integer)S->tracer->next : 0);
  lua_pushinteger(L, S->current ? (lua_Integer)S->current->chan.id : 0);
  return 2;
}

/* unix() -> ns since 1970 */
static int lua_unix(lua_State *L) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  lua_pushinteger(L, (lua_Integer)now.tv_sec * 1000000000 + now.tv_nsec);
  return 1;
}

/* label(n) -> name */
static int lua_label(lua_State *L) {
  trace_push_label(L, sched_self(L), (uint16_t)luaL_checkinteger(L, 1));
  return 1;
}

void lua_trace_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"position", lua_position}, {"unix", lua_unix},
      {"context", lua_context},   {"set_context", lua_set_context},
      {"bytes", lua_bytes},       {"chans", lua_chans},
      {"edges", lua_edges},       {"hide", lua_hide},
      {"hold", lua_hold},         {"label", lua_label},
      {"name", lua_name},         {"part", lua_part},
      {"scan", lua_scan},         {"names", lua_names},
      {"on_error", lua_on_error}, {"pause", lua_pause},
      {"read", lua_read},         {"read_bytes", lua_read_bytes},
      {"release", lua_release},   {"ring", lua_ring},
      {"tap", lua_tap},           {NULL, NULL},
  };
  lua_newtable(L);
  module_register(L, functions);
  lua_setfield(L, -2, "trace");
}
