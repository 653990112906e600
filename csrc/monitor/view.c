/* view.c: see view.h. */
#include "monitor/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/grow.h"
#include "monitor/text.h"

const RowShape row_shapes[ROW_KINDS] = {
    [ROW_CHAN] = {1, 5}, [ROW_FILL] = {0, 5}, [ROW_GO] = {2, 7}, [ROW_EDGE] = {1, 3}};

/* Numbers in JavaScript are exact below this. */
#define ID_MASK ((UINT64_C(1) << 52) - 1)

/* Room for a row, whose other fields are zeros. NULL if there is no memory. */
static Row *add(View *view, RowKind kind, uint64_t id) {
  Row *rows = (Row *)grow(view->rows, &view->room, view->n + 1, sizeof *rows);
  if (!rows) return NULL;
  view->rows = rows;
  Row *row = &view->rows[view->n++];
  *row = (Row){.kind = (uint8_t)kind, .id = id};
  return row;
}

/* ---- channels ---- */

/* The common key of channels in one row: the line where they were made or, for named channels, the name without its
   digits; and the kind. */
static uint64_t chan_key(const Snapshot *s, const SnapshotChan *c) {
  enum { LONGEST = 256 };
  const char *name = snapshot_text(s, c->name);
  char pattern[LONGEST];
  size_t n = 0;
  for (; *name && n < LONGEST; name++) {
    bool is_digit = *name >= '0' && *name <= '9' && !(c->flags & SNAPSHOT_UNNAMED);
    if (!is_digit) pattern[n++] = *name;
    else if (n == 0 || pattern[n - 1] != '#') pattern[n++] = '#';
  }
  uint64_t parts[] = {map_hash_bytes(pattern, n), c->kind, c->flags};
  return map_hash_bytes(parts, sizeof parts);
}

/* Adds the two rows of a channel, or of the first of several. */
static bool add_chan(View *view, const SnapshotChan *c, uint64_t id) {
  Row *row = add(view, ROW_CHAN, id);
  if (!row) return false;
  row->texts[0] = c->name;
  row->numbers[0] = c->kind;
  row->numbers[2] = c->flags;
  row->numbers[4] = (int64_t)c->id;
  return add(view, ROW_FILL, id) != NULL;
}

/* Adds a channel's numbers to its rows. */
static void count_chan(Row *rows, const SnapshotChan *c) {
  rows[0].numbers[1] += c->limit;
  rows[0].numbers[3]++;
  const int64_t fill[] = {(int64_t)c->puts, (int64_t)c->takes, c->count, c->nputs, c->ntakes};
  for (int i = 0; i < 5; i++) rows[1].numbers[i] += fill[i];
}

static bool add_single_chans(View *view, const Snapshot *s) {
  const SnapshotChan *chans = s->chans.items;
  for (uint32_t i = 0; i < s->chans.n; i++) {
    if (!add_chan(view, &chans[i], chans[i].id)) return false;
    count_chan(&view->rows[view->n - 2], &chans[i]);
  }
  return true;
}

/* Makes rows for channels with a common key. If there would be too many, counts the rest. */
static bool add_folded_chans(View *view, const Snapshot *s) {
  const SnapshotChan *chans = s->chans.items;
  Map rows = {0};
  bool well = true;
  for (uint32_t i = 0; i < s->chans.n && well; i++) {
    uint64_t key = chan_key(s, &chans[i]);
    const MapEntry *known = map_find(&rows, key);
    if (!known && view->n / 2 == VIEW_CHANS) {
      view->more_chans++;
      continue;
    }
    MapEntry *entry = map_add(&rows, key), *place = map_add(&view->places, chans[i].id);
    well = entry && place && (known || add_chan(view, &chans[i], key & ID_MASK));
    if (!well) break;
    if (!known) entry->value = view->n - 2;
    place->value = key & ID_MASK;
    count_chan(&view->rows[entry->value], &chans[i]);
  }
  map_free(&rows);
  return well;
}

static bool add_chans(View *view, const Snapshot *s) {
  return s->chans.n <= VIEW_CHANS ? add_single_chans(view, s) : add_folded_chans(view, s);
}

/* The id of the channel's row; 0 if there is none. */
static uint64_t row_of(const View *view, uint64_t chan) {
  if (!view->places.n) return chan;
  const MapEntry *place = map_find(&view->places, chan);
  return place ? place->value : 0;
}

/* ---- go blocks ---- */

/* The common key of go blocks in one row; with `by_chan` also the channel. */
static uint64_t go_key(const View *view, const Snapshot *s, const SnapshotGo *g, bool by_chan) {
  uint64_t parts[] = {map_hash(snapshot_text(s, g->name)), map_hash(snapshot_text(s, g->where)), g->state, g->op,
                      by_chan ? row_of(view, g->chan) : 0};
  return map_hash_bytes(parts, sizeof parts);
}

/* Adds the row of a go block, or of the first of several. */
static bool add_go(View *view, const SnapshotGo *g, uint64_t id) {
  Row *row = add(view, ROW_GO, id);
  if (!row) return false;
  row->texts[0] = g->name;
  row->texts[1] = g->where;
  const int64_t numbers[] = {g->state, g->op,         (int64_t)row_of(view, g->chan), g->nchans, g->since / CLOCK_MS,
                             1,        (int64_t)g->id};
  memcpy(row->numbers, numbers, sizeof numbers);
  return true;
}

/* One row for each go block. */
static bool add_single(View *view, const Snapshot *s) {
  const SnapshotGo *gos = s->gos.items;
  for (uint32_t i = 0; i < s->gos.n; i++) {
    if (!add_go(view, &gos[i], gos[i].id)) return false;
  }
  return true;
}

/* Makes one row for go blocks with a common key. Returns false if there is no memory, or *full if there would be too
   many rows: the rest is counted. */
static bool add_folded(View *view, const Snapshot *s, bool by_chan, bool *full) {
  const SnapshotGo *gos = s->gos.items;
  Map map = {0};
  bool well = true;
  uint32_t first = view->n;
  *full = false;
  for (uint32_t i = 0; i < s->gos.n && well; i++) {
    const SnapshotGo *g = &gos[i];
    uint64_t key = go_key(view, s, g, by_chan);
    MapEntry *entry = map_find(&map, key);
    if (entry) {
      Row *row = &view->rows[entry->value];
      if (g->since && g->since / CLOCK_MS < row->numbers[4]) row->numbers[4] = g->since / CLOCK_MS;
      if (row->numbers[2] != (int64_t)row_of(view, g->chan)) row->numbers[2] = 0;
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
    well = entry && add_go(view, g, key & ID_MASK);
    if (well) entry->value = view->n - 1;
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

/* The total of a channel's only edge on a side equals the channel's own, and is not sent. */
static bool add_edges(View *view, const Snapshot *s) {
  const SnapshotEdge *edges = s->edges.items;
  Map rows = {0}, sides = {0};
  bool well = true;
  uint32_t first = view->n;
  for (uint32_t i = 0; i < s->edges.n && well; i++) {
    const SnapshotEdge *e = &edges[i];
    uint64_t chan = row_of(view, e->chan);
    if (!chan) continue;
    uint64_t parts[] = {map_hash(snapshot_text(s, e->name)), chan, e->is_put};
    uint64_t key = map_hash_bytes(parts, sizeof parts);
    const MapEntry *known = map_find(&rows, key);
    if (known) {
      view->rows[known->value].numbers[2] += (int64_t)e->total;
      continue;
    }
    MapEntry *entry = map_add(&rows, key), *side = map_add(&sides, chan << 1 | e->is_put);
    Row *row = entry && side ? add(view, ROW_EDGE, key & ID_MASK) : NULL;
    well = row;
    if (!row) break;
    entry->value = view->n - 1;
    side->value++;
    row->texts[0] = e->name;
    row->numbers[0] = (int64_t)chan;
    row->numbers[1] = e->is_put;
    row->numbers[2] = (int64_t)e->total;
  }
  for (uint32_t i = first; well && i < view->n; i++) {
    Row *row = &view->rows[i];
    uint64_t side = (uint64_t)row->numbers[0] << 1 | (uint64_t)row->numbers[1];
    if (map_find(&sides, side)->value == 1) row->numbers[2] = -1;
  }
  map_free(&rows);
  map_free(&sides);
  return well;
}

bool view_make(View *view, const Snapshot *snapshot) {
  view->n = view->more = view->more_chans = 0;
  view->snapshot = snapshot;
  map_clear(&view->places);
  if (add_chans(view, snapshot) && add_gos(view, snapshot) && add_edges(view, snapshot)) return true;
  view->n = 0; /* uncovered: only when memory runs out */
  return false;
}

void view_free(View *view) {
  map_free(&view->places);
  free(view->rows);
  *view = (View){0};
}
