/* trace_list.c: see trace_list.h. */
#include "tracing/trace_list.h"

#include "core/attr.h"
#include "core/setup.h"
#include "errors/name.h"
#include "errors/origin.h"
#include "lifetimes/root.h"
#include "states/shared_wait.h"
#include "tracing/trace_store.h"
#include "tracing/watch.h"

enum { FIRST_CHANS = 64 }; /* entries that there is room for at first */

/* ---- labels ---- */

/* The label of the text on top of L, which is popped. */
static uint16_t label_of(lua_State *L, Trace *t) {
  int text = lua_gettop(L);
  trace_fetch(L, TRACE_LABELS);
  lua_pushvalue(L, text);
  uint16_t label = TRACE_OTHER;
  if (lua_rawget(L, text + 1) == LUA_TNUMBER) {
    label = (uint16_t)lua_tointeger(L, -1);
  } else if (t->nlabels < TRACE_OTHER) {
    label = (uint16_t)t->nlabels;
    lua_pushvalue(L, text);
    lua_rawseti(L, text + 1, label); /* may raise: then the next name gets this number */
    lua_pushvalue(L, text);
    lua_pushinteger(L, label);
    lua_rawset(L, text + 1);
    if (label == t->nlabels) {
      t->nlabels++;
      Watch *watch = sched_self(L)->watch;
      if (UNLIKELY(watch != NULL)) watch_name(watch, label, lua_tostring(L, text));
    }
  }
  lua_settop(L, text - 1);
  return label;
}

void trace_push_label(lua_State *L, Sched *S, uint16_t label) {
  static const char *const fixed[] = {"?", "main", "driver"};
  if (label < TRACE_FIRST) {
    lua_pushstring(L, fixed[label]);
  } else if (label >= TRACE_OTHER) {
    lua_pushstring(L, label == TRACE_OTHER ? "other" : "hidden");
  } else if (S->tracer) {
    trace_fetch(L, TRACE_LABELS);
    lua_rawgeti(L, -1, label);
    lua_replace(L, -2);
  } else {
    lua_pushliteral(L, "?");
  }
}

void trace_list_label_go(lua_State *L, Trace *t, Go *go, int at) {
  if (go->chan.buf.label) return;
  name_push_label(L, go, at);
  go->chan.buf.label = label_of(L, t);
}

void trace_renamed(lua_State *L, Go *go) {
  Trace *t = go->chan.sched->tracer;
  if (!t || go->chan.buf.label == TRACE_HIDDEN) {
    lua_pop(L, 1);
    return;
  }
  go->chan.buf.label = label_of(L, t);
  trace_set_running(t, go);
}

/* Pushes where the program makes the channel that it is making, as "job.lua:3"; or, if a go block of the library makes
   it, the name of that one. */
static void push_line(lua_State *L, Sched *S) {
  lua_Debug ar;
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || origin_is_library(L, &ar)) continue;
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
    return;
  }
  trace_push_label(L, S, S->current ? S->current->chan.buf.label : TRACE_UNKNOWN);
}

/* ---- the list ---- */

/* Whether entry i of the list has been collected. If so it can be dropped once no record of it is in the ring. */
static bool is_over(lua_State *L, Trace *t, int weak, uint32_t i) {
  TraceChan *entry = &t->chans[i];
  if (!entry->gone) {
    bool is_there = lua_rawgeti(L, weak, (lua_Integer)i + 1) != LUA_TNIL;
    lua_pop(L, 1);
    if (is_there) return false;
    entry->gone = t->next + 1;
  }
  return !t->ring || entry->gone <= trace_oldest(t);
}

/* Drops what can be dropped. */
static void sweep(lua_State *L, Trace *t) {
  trace_fetch(L, TRACE_CHANS);
  int weak = lua_gettop(L);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < t->nchans; i++) {
    if (is_over(L, t, weak, i)) continue;
    if (kept < i) {
      t->chans[kept] = t->chans[i];
      lua_rawgeti(L, weak, (lua_Integer)i + 1);
      lua_rawseti(L, weak, (lua_Integer)kept + 1);
    }
    kept++;
  }
  for (uint32_t i = kept; i < t->nchans; i++) {
    lua_pushnil(L);
    lua_rawseti(L, weak, (lua_Integer)i + 1);
  }
  t->nchans = kept;
  lua_pop(L, 1);
}

/* Makes room for one more entry. A sweep keeps all channels that it finds to be collected, until the next one, as long
   as there is a ring: in the long run that is half of the entries. So only more than that makes the list grow. */
static void make_room(lua_State *L, Trace *t) {
  if (t->nchans < t->chans_size) return;
  sweep(L, t);
  while (t->nchans > t->chans_size - t->chans_size / 4 || t->nchans == t->chans_size) {
    uint32_t size = t->chans_size ? t->chans_size * 2 : FIRST_CHANS;
    TraceChan *chans = (TraceChan *)lua_newuserdatauv(L, size * sizeof(TraceChan), 0);
    if (size <= t->chans_size) { /* a finalizer has made room meanwhile */
      lua_pop(L, 1);             /* seldom covered: a finalizer ran at this very allocation */
      continue;
    }
    for (uint32_t i = 0; i < t->nchans; i++) chans[i] = t->chans[i];
    t->chans = chans;
    t->chans_size = size;
    trace_store(L, TRACE_ENTRIES);
  }
}

/* The id of the shared channel of a handle; 0 for any other channel, and if the handle has been finalized. */
static uint64_t shared_id(const Chan *ch) {
  if (ch->buf.kind != BUFFER_SHARED) return 0;
  const SharedHold *hold = CONTAINER_OF(ch, const SharedHandle, chan)->hold;
  return hold ? shared_chan_id(hold->chan) : 0;
}

void trace_list_add(lua_State *L, Trace *t, int at) {
  Chan *ch = (Chan *)lua_touserdata(L, at);
  if (ch->buf.label || ch->flags & (CHAN_GO | CHAN_CLOSES_ITSELF)) return;
  attr_push(L, at, ATTR_NAME);
  bool is_named = lua_type(L, -1) == LUA_TSTRING;
  if (!is_named) {
    lua_pop(L, 1);
    push_line(L, ch->sched);
  }
  uint16_t label = label_of(L, t);
  for (;;) { /* seldom covered: this is the jump back, see below */
    make_room(L, t);
    if (ch->buf.label || !t->holds[0]) return; /* a finalizer has added it, or has released the list */
    trace_fetch(L, TRACE_CHANS);
    uint32_t i = t->nchans;
    lua_pushvalue(L, at);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
    lua_pop(L, 1);
    if (i != t->nchans || i >= t->chans_size) continue; /* seldom covered: a finalizer has added another */
    t->chans[t->nchans++] = (TraceChan){.id = ch->id, .shared = shared_id(ch), .label = label, .is_named = is_named};
    ch->buf.label = label;
    return;
  }
}

void trace_named(lua_State *L, Chan *ch, int at) {
  Trace *t = ch->sched->tracer;
  uint16_t before = ch->buf.label;
  if (!t || !before || before == TRACE_HIDDEN) return;
  attr_push(L, at, ATTR_NAME);
  uint16_t label = label_of(L, t);
  ch->buf.label = label;
  if (ch->flags & CHAN_GO) { /* its go block has the same name, and is not in the list */
    if (CONTAINER_OF(ch, Go, chan) == ch->sched->current) trace_set_running(t, ch->sched->current);
    return;
  }
  for (uint32_t i = t->nchans; i > 0; i--) { /* most channels are named when they are new */
    if (t->chans[i - 1].id != ch->id) continue;
    t->chans[i - 1].label = label;
    t->chans[i - 1].is_named = true;
    return;
  }
}

Chan *trace_push_chan(lua_State *L, Sched *S, uint32_t i) {
  if (i >= trace_nchans(S)) return NULL;
  trace_fetch(L, TRACE_CHANS);
  lua_rawgeti(L, -1, (lua_Integer)i + 1);
  lua_replace(L, -2);
  Chan *ch = (Chan *)lua_touserdata(L, -1);
  if (ch && ch->buf.label != TRACE_HIDDEN) return ch;
  lua_pop(L, 1);
  return NULL;
}

uint32_t trace_list_scan_part(lua_State *L, Trace *t, int list, uint32_t i, uint32_t last) {
  int top = lua_gettop(L);
  while (i < last) {
    Go *go = root_push_listed(L, list, ++i);
    if (go) {
      trace_list_label_go(L, t, go, top + 1);
      const Alt *alt = &go->alt;
      for (uint32_t k = 0; k < alt->count && alt_is_active(alt); k++) {
        alt_push_channel(L, &alt_waiters(alt)[k]);
        trace_list_add(L, t, top + 2); /* may run finalizers: the alt is looked at again */
        lua_settop(L, top + 1);
      }
    }
    lua_settop(L, top);
  }
  return i;
}

void trace_list_scan(lua_State *L, Trace *t) {
  uint32_t n = root_push_list(L);
  (void)trace_list_scan_part(L, t, lua_gettop(L), 0, n);
  lua_pop(L, 1);
}

void trace_list_open(lua_State *L) {
  setup_push_weak(L, "v");
  trace_store(L, TRACE_CHANS);
}

void trace_list_close(lua_State *L, Trace *t) {
  trace_fetch(L, TRACE_CHANS);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  /* The channels forget their labels, so that they are added to the next list. */
  for (uint32_t i = 0; i < t->nchans; i++) {
    lua_rawgeti(L, -1, (lua_Integer)i + 1);
    Chan *ch = (Chan *)lua_touserdata(L, -1);
    if (ch && ch->buf.label != TRACE_HIDDEN) ch->buf.label = TRACE_UNKNOWN;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  t->chans = NULL;
  t->nchans = t->chans_size = 0;
  for (int key = TRACE_CHANS; key <= TRACE_ENTRIES; key++) {
    lua_pushnil(L);
    trace_store(L, key);
  }
}
