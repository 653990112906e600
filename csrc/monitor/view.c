/* view.c: see view.h. */
#include "monitor/view.h"

#include <stdlib.h>

#include "base/clock.h"
#include "monitor/map.h"
#include "monitor/text.h"

const RowShape row_shapes[ROW_KINDS] = {
    [ROW_CHAN] = {1, 3}, [ROW_FILL] = {0, 5}, [ROW_GO] = {2, 7}, [ROW_EDGE] = {1, 3}};

/* Numbers in JavaScript are exact below this. */
#define ID_MASK ((UINT64_C(1) << 52) - 1)

/* Room for a row, whose other fields are zeros. NULL if there is no memory. */
static Row *add(View *view, RowKind kind, uint64_t id) {
  if (view->n == view->room) {
    uint32_t room = view->room ? view->room * 2 : 256;
    Row *rows = realloc(view->rows, room * sizeof(Row));
    if (!rows) return NULL;
    view->rows = rows;
    view->room = room;
  }
  Row *row = &view->rows[view->n++];
  *row = (Row){.kind = (uint8_t)kind, .id = id};
  return row;
}

static bool add_chans(View *view, const Snapshot *s) {
  const SnapshotChan *chans = s->chans.items;
  for (uint32_t i = 0; i < s->chans.n; i++) {
    const SnapshotChan *c = &chans[i];
    Row *row = add(view, ROW_CHAN, c->id);
    if (!row) return false;
    row->texts[0] = c->name;
    row->numbers[0] = c->kind;
    row->numbers[1] = c->limit;
    row->numbers[2] = c->flags;
    row = add(view, ROW_FILL, c->id);
    if (!row) return false;
    row->numbers[0] = (int64_t)c->puts;
    row->numbers[1] = (int64_t)c->takes;
    row->numbers[2] = c->count;
    row->numbers[3] = c->nputs;
    row->numbers[4] = c->ntakes;
  }
  return true;
}

/* ---- go blocks ---- */

/* What go blocks of one row have in common; with `by_chan` also the channel. */
static uint64_t go_key(const Snapshot *s, const SnapshotGo *g, bool by_chan) {
  uint64_t parts[] = {text_hash(snapshot_text(s, g->name)), text_hash(snapshot_text(s, g->where)), g->state, g->op,
                      by_chan ? g->chan : 0};
  return text_hash_bytes(parts, sizeof parts) | 1;
}

/* One row for each go block. */
static bool add_single(View *view, const Snapshot *s) {
  const SnapshotGo *gos = s->gos.items;
  for (uint32_t i = 0; i < s->gos.n; i++) {
    const SnapshotGo *g = &gos[i];
    Row *row = add(view, ROW_GO, g->id);
    if (!row) return false;
    *row = (Row){.kind = ROW_GO,
                 .id = g->id,
                 .texts = {g->name, g->where},
                 .numbers = {g->state, g->op, (int64_t)g->chan, g->nchans, g->since / CLOCK_MS, 1, (int64_t)g->id}};
  }
  return true;
}

/* One row for go blocks that have a key in common. Returns false if there is no memory, or *full if there would be too
   many rows: the rest is counted. */
static bool add_folded(View *view, const Snapshot *s, bool by_chan, bool *full) {
  const SnapshotGo *gos = s->gos.items;
  Map map = {0};
  bool well = true;
  uint32_t first = view->n;
  *full = false;
  for (uint32_t i = 0; i < s->gos.n && well; i++) {
    const SnapshotGo *g = &gos[i];
    uint64_t key = go_key(s, g, by_chan);
    MapEntry *entry = map_find(&map, key);
    if (entry) {
      Row *row = &view->rows[entry->value];
      if (g->since && g->since / CLOCK_MS < row->numbers[4]) row->numbers[4] = g->since / CLOCK_MS;
      if (row->numbers[2] != (int64_t)g->chan) row->numbers[2] = 0;
      row->numbers[5]++;
      continue;
    }
    if (view->n - first == VIEW_GOS) {
      *full = true;
      if (by_chan) break;
      view->more++;
      continue;
    }
    entry = map_add(&map, key);
    Row *row = entry ? add(view, ROW_GO, key & ID_MASK) : NULL;
    well = row;
    if (!row) break;
    entry->value = view->n - 1;
    *row = (Row){.kind = ROW_GO,
                 .id = key & ID_MASK,
                 .texts = {g->name, g->where},
                 .numbers = {g->state, g->op, (int64_t)g->chan, g->nchans, g->since / CLOCK_MS, 1, (int64_t)g->id}};
  }
  map_free(&map);
  return well;
}

static bool add_gos(View *view, const Snapshot *s) {
  if (s->gos.n <= VIEW_SINGLE) return add_single(view, s);
  uint32_t first = view->n;
  bool full;
  if (!add_folded(view, s, true, &full)) return false;
  if (!full) return true;
  view->n = first;
  return add_folded(view, s, false, &full);
}

/* ---- edges ---- */

/* The total of a channel's only edge on that side is the channel's own, and need not be sent. */
static bool add_edges(View *view, const Snapshot *s) {
  const SnapshotEdge *edges = s->edges.items;
  Map sides = {0};
  bool well = true;
  for (uint32_t i = 0; i < s->edges.n && well; i++) {
    MapEntry *entry = map_add(&sides, edges[i].chan << 1 | edges[i].is_put);
    well = entry;
    if (entry) entry->value++;
  }
  for (uint32_t i = 0; i < s->edges.n && well; i++) {
    const SnapshotEdge *e = &edges[i];
    uint64_t parts[] = {text_hash(snapshot_text(s, e->name)), e->chan, e->is_put};
    Row *row = add(view, ROW_EDGE, text_hash_bytes(parts, sizeof parts) & ID_MASK);
    well = row;
    if (!row) break;
    row->texts[0] = e->name;
    row->numbers[0] = (int64_t)e->chan;
    row->numbers[1] = e->is_put;
    row->numbers[2] = map_find(&sides, e->chan << 1 | e->is_put)->value == 1 ? -1 : (int64_t)e->total;
  }
  map_free(&sides);
  return well;
}

bool view_make(View *view, const Snapshot *snapshot) {
  view->n = view->more = 0;
  view->snapshot = snapshot;
  if (add_chans(view, snapshot) && add_gos(view, snapshot) && add_edges(view, snapshot)) return true;
  view->n = 0; /* uncovered: only when memory runs out */
  return false;
}

void view_free(View *view) {
  free(view->rows);
  *view = (View){0};
}
