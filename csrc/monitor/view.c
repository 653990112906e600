/* view.c: see view.h. */
#include "monitor/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/grow.h"
#include "monitor/text.h"

const RowShape row_shapes[ROW_KINDS] = {
    [ROW_CHAN] = {1, 5}, [ROW_FILL] = {0, 6}, [ROW_GO] = {2, 7}, [ROW_EDGE] = {1, 3}};

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

/* ---- names ---- */

/* Marks a text of the view; others are the snapshot's. */
#define OWN (UINT32_C(1) << 31)

const char *view_text(const View *view, uint32_t text) {
  return text & OWN ? (const char *)view->names.items + (text & ~OWN) : snapshot_text(view->snapshot, text);
}

/* A name, and what distinguishes it from others. */
typedef struct Name {
  uint64_t hash; /* 0: there was no memory */
  uint32_t text; /* see view_text */
} Name;

static Name whole_name(const View *view, uint32_t text) {
  return (Name){.hash = map_hash(snapshot_text(view->snapshot, text)), .text = text};
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* Whether the first `n` characters of a text end in a colon and digits, the number of a line. */
static bool ends_in_line(const char *text, size_t n) {
  size_t i = n;
  while (i > 0 && is_digit(text[i - 1])) i--;
  return i < n && i > 0 && text[i - 1] == ':';
}

/* The length of what comes first in a name of the library's: of "flow1.save at job2.lua:3 -> chan: #7" up to the 3; 0 for
   other names. */
static size_t place_length(const char *text) {
  const char *at = strstr(text, " at ");
  if (!at) return 0;
  const char *target = strstr(at, " -> chan: ");
  size_t n = target ? (size_t)(target - text) : strlen(text);
  return ends_in_line(text, n) ? n : 0;
}

/* The length of the word at the beginning of a text if it is a place, as job2.lua:3; else 0. */
static size_t place_word(const char *text) {
  size_t n = 0;
  while (text[n] && !is_space(text[n])) n++;
  return ends_in_line(text, n) ? n : 0;
}

/* The name with one # for each run of digits. Places stay, and names of stages of flows: they are no numbers of alike
   things. csrc/monitor/page/alike.js does the same. */
static Name pattern_of(View *view, uint32_t text) {
  enum { LONGEST = 256 };
  char pattern[LONGEST + 1];
  const char *name_text = snapshot_text(view->snapshot, text);
  size_t n = 0, kept = place_length(name_text);
  for (size_t i = 0; name_text[i] && n < LONGEST; i++) {
    if (i >= kept && (i == 0 || is_space(name_text[i - 1]))) kept = i + place_word(name_text + i);
    bool is_line = i > 0 && is_digit(name_text[i]) && ends_in_line(name_text, i + 1);
    if (i < kept || !is_digit(name_text[i]) || is_line) pattern[n++] = name_text[i];
    else if (n == 0 || pattern[n - 1] != '#') pattern[n++] = '#';
  }
  pattern[n] = 0;
  Name name = {.hash = map_hash(pattern)};
  MapEntry *entry = map_find(&view->patterns, name.hash);
  if (!entry) {
    SnapshotArray *names = &view->names;
    void *items = grow(names->items, &names->room, names->n + n + 1, 1);
    if (items) names->items = items;
    entry = items ? map_add(&view->patterns, name.hash) : NULL;
    if (!entry) return (Name){0};
    memcpy((char *)items + names->n, pattern, n + 1);
    entry->value = names->n;
    names->n += (uint32_t)n + 1;
  }
  name.text = (uint32_t)entry->value | OWN;
  return name;
}

/* ---- the rows that matter most ---- */

/* How much there is of a row: the values of a channel or an edge, the go blocks. */
static int64_t amount(const Row *row) {
  return row->kind == ROW_CHAN ? row[1].numbers[0] : row->kind == ROW_GO ? row->numbers[5] : row->numbers[2];
}

static int by_amount(const void *left, const void *right) {
  const Row *a = (const Row *)left, *b = (const Row *)right;
  int64_t x = amount(a), y = amount(b);
  if (x != y) return x > y ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Of the items from row `first` on, each of `size` rows, leaves at most `most`. The others stay behind the end. Returns
   how many they are. */
static uint32_t keep_most(View *view, uint32_t first, uint32_t size, uint32_t most) {
  uint32_t n = (view->n - first) / size;
  if (n <= most) return 0;
  qsort(view->rows + first, n, size * sizeof(Row), by_amount);
  view->n = first + most * size;
  return n - most;
}

/* ---- channels ---- */

/* How much a counter has grown since the last view, in which it was 0 if it was not there. */
static uint64_t growth(View *view, const SnapshotChan *c, bool is_put, bool *well) {
  MapEntry *entry = map_add(&view->counts, c->id << 1 | is_put);
  uint64_t n = is_put ? c->puts : c->takes;
  *well = *well && entry;
  if (!entry) return 0;
  uint64_t before = entry->value;
  entry->value = n;
  entry->mark = view->mark;
  return n > before ? n - before : 0;
}

/* The growing total of a row that channels share. */
static uint64_t total_of(View *view, uint64_t row, bool is_put, uint64_t more, bool *well) {
  MapEntry *entry = map_add(&view->totals, row << 1 | is_put);
  *well = *well && entry;
  if (!entry) return 0;
  entry->mark = view->mark;
  return entry->value += more;
}

/* Adds the two rows of a channel, or of the first of several. */
static bool add_chan(View *view, const SnapshotChan *c, uint64_t id, uint32_t name) {
  Row *row = add(view, ROW_CHAN, id);
  if (!row) return false;
  row->texts[0] = name;
  row->numbers[0] = c->kind;
  row->numbers[2] = c->flags;
  row->numbers[4] = (int64_t)c->id;
  row = add(view, ROW_FILL, id);
  if (row) row->numbers[5] = -1;
  return row != NULL;
}

/* Adds a channel's numbers to its rows. */
static void count_chan(Row *rows, const SnapshotChan *c) {
  rows[0].numbers[1] += c->limit;
  rows[0].numbers[3]++;
  rows[1].numbers[2] += c->count;
  rows[1].numbers[3] += c->nputs;
  rows[1].numbers[4] += c->ntakes;
}

static bool add_single_chans(View *view, const Snapshot *s) {
  const SnapshotChan *chans = s->chans.items;
  bool well = true;
  for (uint32_t i = 0; i < s->chans.n && well; i++) {
    view->puts += growth(view, &chans[i], true, &well);
    if (!well || !add_chan(view, &chans[i], chans[i].id, chans[i].name)) return false;
    Row *rows = &view->rows[view->n - 2];
    count_chan(rows, &chans[i]);
    rows[1].numbers[0] = (int64_t)chans[i].puts;
    rows[1].numbers[1] = (int64_t)chans[i].takes;
    rows[1].numbers[5] = (int64_t)chans[i].last; /* SNAPSHOT_NOBODY is -1 */
  }
  return well;
}

/* Adds the names of the stages of flows, whose go blocks are called "NAME at FILE:LINE": their channels have them, too. */
static bool add_stages(Map *stages, const Snapshot *s) {
  const SnapshotGo *gos = s->gos.items;
  bool well = true;
  for (uint32_t i = 0; i < s->gos.n && well; i++) {
    const char *name = snapshot_text(s, gos[i].name);
    if (place_length(name)) well = map_add(stages, map_hash_bytes(name, (size_t)(strstr(name, " at ") - name)) | 1);
  }
  return well;
}

static bool is_stage(const Map *stages, const char *name) {
  return map_find(stages, map_hash_bytes(name, strlen(name)) | 1) != NULL;
}

/* Makes rows for channels with a common name, kind and flags. */
static bool add_shared_chans(View *view, const Snapshot *s) {
  const SnapshotChan *chans = s->chans.items;
  Map rows = {0}, stages = {0};
  bool well = add_stages(&stages, s);
  for (uint32_t i = 0; i < s->chans.n && well; i++) {
    Name name = is_stage(&stages, snapshot_text(s, chans[i].name)) ? whole_name(view, chans[i].name)
                                                                   : pattern_of(view, chans[i].name);
    uint64_t parts[] = {name.hash, chans[i].kind, chans[i].flags}, id = map_hash_bytes(parts, sizeof parts) & ID_MASK;
    const MapEntry *known = map_find(&rows, id | 1);
    MapEntry *entry = map_add(&rows, id | 1), *place = map_add(&view->places, chans[i].id);
    well = name.hash && entry && place && (known || add_chan(view, &chans[i], id, name.text));
    if (!well) break;
    if (!known) entry->value = view->n - 2;
    place->value = id;
    Row *row = &view->rows[entry->value];
    count_chan(row, &chans[i]);
    uint64_t puts = growth(view, &chans[i], true, &well), takes = growth(view, &chans[i], false, &well);
    view->puts += puts;
    row[1].numbers[0] = (int64_t)total_of(view, id, true, puts, &well);
    row[1].numbers[1] = (int64_t)total_of(view, id, false, takes, &well);
  }
  map_free(&rows);
  map_free(&stages);
  uint32_t end = view->n;
  (void)keep_most(view, 0, 2, VIEW_CHANS);
  for (uint32_t i = 0; i < view->n && well; i += 2) well = map_add(&view->kept, view->rows[i].id | 1) != NULL;
  for (uint32_t i = view->n; i < end; i += 2) view->more_chans += (uint32_t)view->rows[i].numbers[3];
  return well;
}

static bool add_chans(View *view, const Snapshot *s) {
  bool well = s->chans.n <= VIEW_CHANS ? add_single_chans(view, s) : add_shared_chans(view, s);
  return well && map_keep_marked(&view->counts, view->mark) && map_keep_marked(&view->totals, view->mark);
}

/* The id of the channel's row; 0 if there is none. */
static uint64_t row_of(const View *view, uint64_t chan) {
  if (!view->places.n) return chan;
  const MapEntry *place = map_find(&view->places, chan);
  return place && map_find(&view->kept, place->value | 1) ? place->value : 0;
}

/* ---- go blocks ---- */

/* Adds the row of a go block, or of the first of several. */
static bool add_go(View *view, const SnapshotGo *g, uint64_t id, uint32_t name) {
  Row *row = add(view, ROW_GO, id);
  if (!row) return false;
  row->texts[0] = name;
  row->texts[1] = g->where;
  const int64_t numbers[] = {g->state, g->op,         (int64_t)row_of(view, g->chan), g->nchans, g->since / CLOCK_MS,
                             1,        (int64_t)g->id};
  memcpy(row->numbers, numbers, sizeof numbers);
  return true;
}

/* One row for each go block. */
static bool add_single_gos(View *view, const Snapshot *s) {
  const SnapshotGo *gos = s->gos.items;
  for (uint32_t i = 0; i < s->gos.n; i++) {
    if (!add_go(view, &gos[i], gos[i].id, gos[i].name)) return false;
  }
  return true;
}

/* Adds one more go block to a row. */
static void count_go(const View *view, Row *row, const SnapshotGo *g) {
  if (g->since && g->since / CLOCK_MS < row->numbers[4]) row->numbers[4] = g->since / CLOCK_MS;
  if (row->numbers[2] != (int64_t)row_of(view, g->chan)) row->numbers[2] = 0;
  row->numbers[5]++;
}

/* Makes rows for go blocks with a common name that do the same in the same line. */
static bool add_shared_gos(View *view, const Snapshot *s) {
  const SnapshotGo *gos = s->gos.items;
  Map rows = {0};
  bool well = true;
  uint32_t first = view->n;
  for (uint32_t i = 0; i < s->gos.n && well; i++) {
    const SnapshotGo *g = &gos[i];
    Name name = pattern_of(view, g->name);
    uint64_t parts[] = {name.hash, map_hash(snapshot_text(s, g->where)), g->state, g->op};
    uint64_t key = map_hash_bytes(parts, sizeof parts);
    MapEntry *entry = map_find(&rows, key);
    if (entry) {
      count_go(view, &view->rows[entry->value], g);
      continue;
    }
    entry = map_add(&rows, key);
    well = name.hash && entry && add_go(view, g, key & ID_MASK, name.text);
    if (well) entry->value = view->n - 1;
  }
  map_free(&rows);
  uint32_t end = view->n;
  (void)keep_most(view, first, 1, VIEW_GOS);
  for (uint32_t i = view->n; i < end; i++) view->more += (uint32_t)view->rows[i].numbers[5];
  return well;
}

static bool add_gos(View *view, const Snapshot *s) {
  return s->gos.n <= VIEW_SINGLE ? add_single_gos(view, s) : add_shared_gos(view, s);
}

/* ---- edges ---- */

/* Rounded down to two digits. A page shows only the size, and the row changes seldom. */
static int64_t roughly(int64_t n) {
  int64_t unit = 1;
  while (n / unit >= 100) unit *= 10;
  return n / unit * unit;
}

/* Makes a row for the edges of go blocks with a common name on a row of channels. */
static bool add_edges(View *view, const Snapshot *s) {
  const SnapshotEdge *edges = s->edges.items;
  Map rows = {0}, sides = {0};
  bool well = true, is_shared = s->gos.n > VIEW_SINGLE;
  uint32_t first = view->n;
  for (uint32_t i = 0; i < s->edges.n && well; i++) {
    const SnapshotEdge *e = &edges[i];
    uint64_t chan = row_of(view, e->chan);
    if (!chan) continue;
    Name name = is_shared ? pattern_of(view, e->name) : whole_name(view, e->name);
    uint64_t parts[] = {name.hash, chan, e->is_put};
    uint64_t key = map_hash_bytes(parts, sizeof parts);
    const MapEntry *known = map_find(&rows, key);
    if (known) {
      view->rows[known->value].numbers[2] += (int64_t)e->total;
      continue;
    }
    MapEntry *entry = map_add(&rows, key), *side = map_add(&sides, chan << 1 | e->is_put);
    Row *row = entry && side && name.hash ? add(view, ROW_EDGE, key & ID_MASK) : NULL;
    well = row;
    if (!row) break;
    entry->value = view->n - 1;
    side->value++;
    row->texts[0] = name.text;
    row->numbers[0] = (int64_t)chan;
    row->numbers[1] = e->is_put;
    row->numbers[2] = (int64_t)e->total;
  }
  view->more_edges = s->lost + keep_most(view, first, 1, VIEW_EDGES);
  for (uint32_t i = first; well && i < view->n; i++) {
    Row *row = &view->rows[i];
    uint64_t side = (uint64_t)row->numbers[0] << 1 | (uint64_t)row->numbers[1];
    row->numbers[2] = map_find(&sides, side)->value == 1 ? -1 : roughly(row->numbers[2]);
  }
  map_free(&rows);
  map_free(&sides);
  return well;
}

bool view_make(View *view, const Snapshot *snapshot) {
  view->n = view->more = view->more_chans = view->names.n = 0;
  view->snapshot = snapshot;
  view->mark++;
  map_clear(&view->places);
  map_clear(&view->kept);
  map_clear(&view->patterns);
  if (add_chans(view, snapshot) && add_gos(view, snapshot) && add_edges(view, snapshot)) return true;
  view->n = 0; /* uncovered: only when memory runs out */
  return false;
}

void view_free(View *view) {
  Map *maps[] = {&view->counts, &view->totals, &view->places, &view->kept, &view->patterns};
  for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) map_free(maps[i]);
  free(view->names.items);
  free(view->rows);
  *view = (View){0};
}
