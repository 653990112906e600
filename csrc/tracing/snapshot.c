/* snapshot.c: see snapshot.h. */
#include "tracing/snapshot.h"

#include <lauxlib.h>
#include <string.h>

#include "base/grow.h"
#include "channels/chan_custom.h"
#include "core/attr.h"
#include "core/others.h"
#include "errors/leaks.h"
#include "errors/name.h"
#include "lifetimes/root.h"
#include "tracing/trace_list.h"
#include "tracing/watch.h"

/* Channels, slots for edges, or go blocks that one call of snapshot_fill visits: 1 to 2 ms. */
enum { PART = 2048 };

enum { COMPLETE, CHANS, EDGES, GOS };

/* ---- memory ---- */

/* Where the next element of `size` bytes belongs; there is room for `n` of them. */
static void *reserve(lua_State *L, SnapshotArray *array, size_t size, uint32_t n) {
  size_t needed = (size_t)array->n + n;
  void *items = needed < UINT32_MAX / 2 ? grow(array->items, &array->room, needed, size) : NULL;
  if (!items) luaL_error(L, "not enough memory");
  array->items = items;
  return (char *)items + array->n * size;
}

/* Appends an element of `size` bytes. */
static void append(lua_State *L, SnapshotArray *array, const void *item, size_t size) {
  memcpy(reserve(L, array, size, 1), item, size);
  array->n++;
}

/* The entry of a key; *is_new: it has just been added. */
static MapEntry *entry_of(lua_State *L, Map *map, uint64_t key, bool *is_new) {
  uint32_t before = map->n;
  MapEntry *entry = map_add(map, key);
  if (!entry) luaL_error(L, "not enough memory");
  *is_new = map->n > before;
  return entry;
}

/* ---- texts ---- */

/* The offset of a text, which is added if it is new. A zero ends it. */
static uint32_t add_text(lua_State *L, Snapshot *s, const char *text) {
  size_t size = strlen(text) + 1;
  bool is_new;
  char *at = (char *)reserve(L, &s->texts, 1, (uint32_t)size); /* first: an entry without its text must not stay */
  MapEntry *entry = entry_of(L, &s->index, map_hash(text), &is_new);
  if (!is_new) return (uint32_t)entry->value;
  entry->value = s->texts.n;
  memcpy(at, text, size);
  s->texts.n += (uint32_t)size;
  return (uint32_t)entry->value;
}

/* The offset of the string on top of L, which is popped; or of "" for another value. */
static uint32_t add_string(lua_State *L, Snapshot *s) {
  uint32_t text = add_text(L, s, lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "");
  lua_pop(L, 1);
  return text;
}

/* The text of a label. */
static uint32_t add_label(lua_State *L, Sched *S, Snapshot *s, uint16_t label) {
  if (label >= s->labels.n) {
    uint32_t more = label + 256u - s->labels.n;
    memset(reserve(L, &s->labels, sizeof(uint32_t), more), 0, more * sizeof(uint32_t));
    s->labels.n += more;
  }
  uint32_t known = ((uint32_t *)s->labels.items)[label];
  if (known) return known - 1;
  trace_push_label(L, S, label);
  uint32_t text = add_string(L, s);
  ((uint32_t *)s->labels.items)[label] = text + 1;
  return text;
}

/* Whether this key, which is not 0, has not been there yet. */
static bool is_new(lua_State *L, Snapshot *s, uint64_t key) {
  bool is;
  (void)entry_of(L, &s->seen, key, &is);
  return is;
}

/* ---- channels ---- */

/* Adds the channel at index `at`, unless it is there. `entry` is its entry in the list of channels, or NULL. */
static void add_chan(lua_State *L, Sched *S, Snapshot *s, const Chan *ch, int at, const TraceChan *entry) {
  if (!is_new(L, s, ch->id << 1)) return;
  const CustomChan *custom = chan_custom(ch);
  ChanStats stats = chan_stats(L, ch);
  SnapshotChan c = {.id = ch->id,
                    .kind = chan_is_shared(ch) ? BUFFER_SHARED : (uint8_t)stats.kind,
                    .limit = stats.limit,
                    .count = stats.count,
                    .nputs = stats.nputs,
                    .ntakes = stats.ntakes,
                    .puts = stats.puts,
                    .takes = stats.takes};
  bool waits = stats.nputs || (stats.ntakes && stats.takes);
  bool is_kept = ch->buf.kind == BUFFER_FIXED && !(ch->flags & (CHAN_SPECIAL | CHAN_GO));
  c.last = waits && is_kept ? ch->last : SNAPSHOT_NOBODY;
  if (entry) {
    c.name = add_label(L, S, s, entry->label);
  } else {
    attr_push(L, at, ATTR_NAME);
    c.name = add_string(L, s);
  }
  c.flags = (uint8_t)((stats.closed ? SNAPSHOT_CLOSED : 0) | (ch->flags & CHAN_GO ? SNAPSHOT_RESULT : 0) |
                      (ch->flags & CHAN_TIMEOUT         ? SNAPSHOT_TIMEOUT
                       : ch->flags & CHAN_CLOSES_ITSELF ? SNAPSHOT_DONE
                                                        : 0) |
                      (custom && custom->has_xform ? SNAPSHOT_XFORM : 0) |
                      (entry && !entry->is_named ? SNAPSHOT_UNNAMED : 0));
  append(L, &s->chans, &c, sizeof c);
}

static void add_edge(lua_State *L, Snapshot *s, uint64_t chan, uint32_t name, bool is_put, uint64_t total) {
  uint64_t key =
      (chan * UINT64_C(0xBF58476D1CE4E5B9) ^ ((uint64_t)name << 1 | is_put) * UINT64_C(0x94D049BB133111EB)) | 1;
  if (!is_new(L, s, key)) return;
  const SnapshotEdge edge = {.chan = chan, .total = total, .name = name, .is_put = is_put};
  append(L, &s->edges, &edge, sizeof edge);
}

/* ---- go blocks ---- */

/* Fills in what an alt waits for, and adds its channels: nothing, if all of them are hidden. */
static void add_waits(lua_State *L, Sched *S, Snapshot *s, SnapshotGo *g, const Alt *alt) {
  if (!alt->count || !alt_is_active(alt)) return;
  alt = others_shown(alt);
  for (uint32_t i = 0; i < alt->count; i++) { /* an allocation may end it, which changes `count` */
    const Waiter *w = &alt_waiters(alt)[i];
    if (chan_is_hidden(w->chan)) continue;
    bool is_put = w->is_put;
    g->op = alt->flags & ALT_SELECT ? SNAPSHOT_ALTS : is_put ? SNAPSHOT_PUT : SNAPSHOT_TAKE;
    if (g->nchans++ == 0) g->chan = w->chan->id;
    alt_push_channel(L, w);
    const Chan *ch = chan_to(L, -1);
    if (ch) {
      add_chan(L, S, s, ch, lua_gettop(L), NULL);
      if (!(ch->flags & CHAN_CLOSES_ITSELF)) add_edge(L, s, ch->id, g->name, is_put, 0);
    }
    lua_pop(L, 1);
    if (alt->state != ALT_PARKED || !alt_is_active(alt)) return;
  }
}

/* Adds the go block at index `at`. */
static void add_go(lua_State *L, Sched *S, Snapshot *s, Go *go, int at) {
  uint16_t label = trace_label(&go->chan);
  if (label == TRACE_HIDDEN) return;
  SnapshotGo g = {.id = go->chan.id, .state = go->alt.state};
  if (label >= TRACE_FIRST && label < TRACE_OTHER) {
    g.name = add_label(L, S, s, label);
  } else {
    name_push_go(L, go, at);
    g.name = add_string(L, s);
  }
  if (go->alt.state != ALT_IDLE) {
    name_push_where(L, go);
    g.where = add_string(L, s);
  } else {
    g.where = add_text(L, s, ""); /* uncovered: the loop serves the monitor while no go block runs */
  }
  if ((go->alt.state == ALT_PARKED || go->alt.state == ALT_SLEEPING) && !(go->alt.flags & ALT_BARE))
    g.since = go->alt.since;
  add_waits(L, S, s, &g, &go->alt);
  append(L, &s->gos, &g, sizeof g);
}

/* Adds the main program, if it waits. */
static void add_main(lua_State *L, Sched *S, Snapshot *s) {
  const Alt *alt = &S->outside;
  bool waits = alt->state == ALT_PARKED || alt->state == ALT_SLEEPING;
  if (!waits && !S->awaited) return;
  SnapshotGo g = {.state = waits ? alt->state : ALT_PARKED, .name = add_label(L, S, s, TRACE_MAIN)};
  g.where = add_text(L, s, "");
  if (waits) g.since = alt->since;
  add_waits(L, S, s, &g, alt);
  append(L, &s->gos, &g, sizeof g);
  s->has_main = true;
}

/* ---- filling ---- */

/* Each adds what is at `i`, and returns false if there is nothing from there on. */

static bool fill_chan(lua_State *L, Sched *S, Snapshot *s, uint32_t i) {
  if (i >= trace_nchans(S)) return false;
  TraceChan entry = S->tracer->chans[i];
  const Chan *ch = trace_push_chan(L, S, i);
  if (!ch) return true;
  add_chan(L, S, s, ch, lua_gettop(L), &entry);
  lua_pop(L, 1);
  return true;
}

static bool fill_edge(lua_State *L, Sched *S, Snapshot *s, uint32_t i) {
  const Trace *t = S->tracer;
  if (!trace_is_on(S) || !t->edges || i > t->edges_mask) return false;
  const TraceEdge e = t->edges[i];
  if (!e.key || trace_edge_is_result(&e)) return true;
  uint64_t chan = trace_whole_id(S->next_id, trace_edge_chan(&e));
  if (!map_find(&s->seen, chan << 1)) return true; /* collected */
  if (trace_edge_label(&e) == TRACE_OTHER) {       /* which go blocks is not known */
    s->lost += e.puts + e.takes;
    return true;
  }
  uint32_t name = add_label(L, S, s, trace_edge_label(&e));
  if (e.puts) add_edge(L, s, chan, name, true, e.puts);
  if (e.takes) add_edge(L, s, chan, name, false, e.takes);
  return true;
}

static bool fill_go(lua_State *L, Sched *S, Snapshot *s, uint32_t i) {
  if (i == 0) {
    s->ngos = root_push_list(L);
    lua_setiuservalue(L, SCHED_SELF, SCHED_SNAPSHOT);
  }
  int top = lua_gettop(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_SNAPSHOT);
  bool is_over = i >= s->ngos || !lua_istable(L, -1); /* no table: another snapshot was begun, and has ended */
  Go *go = is_over ? NULL : root_push_listed(L, top + 1, i + 1);
  if (go) add_go(L, S, s, go, top + 2);
  lua_settop(L, top);
  if (!is_over) return true;
  lua_pushnil(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_SNAPSHOT);
  return false;
}

static void begin(lua_State *L, Sched *S, Snapshot *s) {
  s->gos.n = s->chans.n = s->edges.n = s->texts.n = s->labels.n = 0;
  map_clear(&s->index);
  map_clear(&s->seen);
  s->is_virtual = S->world.clock.is_virtual;
  s->now = clock_now(&S->world.clock);
  s->began = clock_ns();
  s->lost = trace_is_on(S) ? S->tracer->edges_lost : 0;
  s->taken = 0;
  s->ready = S->world.nready;
  s->turn = S->watch ? watch_peak(S->watch) : 0;
  s->has_main = false;
  s->memory = (uint64_t)lua_gc(L, LUA_GCCOUNT) * 1024;
  s->next = 0;
}

bool snapshot_fill(lua_State *L, Sched *S, Snapshot *s) {
  static bool (*const fill[])(lua_State *, Sched *, Snapshot *,
                              uint32_t) = {[CHANS] = fill_chan, [EDGES] = fill_edge, [GOS] = fill_go};
  int64_t began = clock_ns();
  uint8_t phase = s->phase;
  s->phase = COMPLETE; /* if this raises, it begins anew */
  if (phase == COMPLETE) {
    begin(L, S, s);
    phase = CHANS;
  }
  for (int i = 0; i < PART && phase != COMPLETE; i++) {
    if (fill[phase](L, S, s, s->next)) {
      s->next++;
    } else {
      s->next = 0;
      phase = phase == GOS ? COMPLETE : (uint8_t)(phase + 1);
      if (phase == GOS) add_main(L, S, s);
    }
  }
  if (phase == COMPLETE) s->leaks = leaks_count(L, S);
  s->taken += clock_ns() - began;
  s->phase = phase;
  return phase == COMPLETE;
}

/* ---- what a page asks about ---- */

bool snapshot_push_go(lua_State *L, Sched *S, uint64_t id) {
  for (uint32_t i = 1; i <= root_count(S); i++) {
    const Go *go = root_push_at(L, i);
    if (go && go->chan.id == id) return true;
    lua_pop(L, 1);
  }
  return false;
}

/* Pushes the channel with this id, if the alt waits on it, and returns true. */
static bool push_waited(lua_State *L, const Alt *alt, uint64_t id) {
  if (!alt->count || !alt_is_active(alt)) return false;
  alt = others_shown(alt);
  for (uint32_t i = 0; i < alt->count; i++) {
    const Waiter *w = &alt_waiters(alt)[i];
    if (w->chan->id != id) continue;
    alt_push_channel(L, w);
    return true;
  }
  return false;
}

bool snapshot_push_chan(lua_State *L, Sched *S, uint64_t id) {
  for (uint32_t i = 0; i < trace_nchans(S); i++) {
    if (S->tracer->chans[i].id == id && trace_push_chan(L, S, i)) return true;
  }
  if (push_waited(L, &S->outside, id)) return true;
  for (uint32_t i = 1; i <= root_count(S); i++) {
    const Go *go = root_push_at(L, i);
    if (go && push_waited(L, &go->alt, id)) return true;
    lua_pop(L, 1);
  }
  return false;
}

void snapshot_push_values(lua_State *L, Chan *ch, int at, lua_Integer max) {
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_Integer n = 0;
  const Buffer *b = &ch->buf;
  if (b->kind >= BUFFER_POLICY) return;
  if (b->kind != BUFFER_NONE && !b->base) lua_getiuservalue(L, at, CHAN_VALUES);
  for (uint32_t i = 0; i < buffer_count(b) && n < max; i++) {
    uint32_t slot = b->head + i < b->size ? b->head + i : b->head + i - b->size;
    if (b->base) lua_getiuservalue(L, at, b->base + (int)slot);
    else lua_rawgeti(L, list + 1, (lua_Integer)slot + 1);
    lua_rawseti(L, list, ++n);
  }
  lua_settop(L, list);
  const Link *link = ch->queues[PUTS].first;
  for (uint32_t i = 0; i < ch->waiting[PUTS] && link && n < max; i++, link = link->next) {
    const Waiter *w = CONTAINER_OF(link, Waiter, link);
    if (!alt_is_active(w->alt)) continue;
    alt_push_value(L, w);
    lua_rawseti(L, list, ++n);
  }
}
