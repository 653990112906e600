/* feed.c: see feed.h. */
#include "monitor/feed.h"

/* The most texts that a page knows; then it begins anew. */
enum { MAX_TEXTS = 50000 };

static uint64_t row_key(const Row *row) { return row->id << 3 | (uint64_t)row->kind << 1 | 1; }
static uint64_t id_of_key(uint64_t key) { return key >> 3; }
static int64_t kind_of_key(uint64_t key) { return (int64_t)(key >> 1 & 3); }

/* The number of a text, which is added to `news` if the page does not know it; -1 if there is no memory. */
static int64_t number_of(Feed *feed, const char *string, Text *news) {
  uint64_t hash = map_hash(string);
  MapEntry *entry = map_find(&feed->texts, hash);
  if (entry) return (int64_t)entry->value;
  entry = map_add(&feed->texts, hash);
  if (!entry) return -1;
  entry->value = feed->texts.n;
  if (text_length(news)) text_puts(news, ",");
  text_puts(news, "[");
  text_integer(news, (int64_t)entry->value);
  text_puts(news, ",");
  text_json(news, string);
  text_puts(news, "]");
  return (int64_t)entry->value;
}

static uint64_t row_hash(const View *view, const Row *row) {
  uint64_t parts[ROW_TEXTS + ROW_NUMBERS] = {0};
  RowShape shape = row_shapes[row->kind];
  for (int i = 0; i < shape.texts; i++) parts[i] = map_hash(view_text(view, row->texts[i]));
  for (int i = 0; i < shape.numbers; i++) parts[ROW_TEXTS + i] = (uint64_t)row->numbers[i];
  return map_hash_bytes(parts, sizeof parts);
}

static void write_row(Feed *feed, const View *view, const Row *row, Text *out, Text *news) {
  RowShape shape = row_shapes[row->kind];
  text_puts(out, "[");
  text_integer(out, row->kind);
  text_puts(out, ",");
  text_integer(out, (int64_t)row->id);
  for (int i = 0; i < shape.texts; i++) {
    text_puts(out, ",");
    text_integer(out, number_of(feed, view_text(view, row->texts[i]), news));
  }
  for (int i = 0; i < shape.numbers; i++) {
    text_puts(out, ",");
    text_integer(out, row->numbers[i]);
  }
  text_puts(out, "]");
}

/* Adds rows that have gone, while `gone` is shorter than `budget`. */
static void write_gone(Feed *feed, size_t budget, Text *gone) {
  for (uint32_t i = 0; i < feed->rows.room; i++) {
    MapEntry *entry = &feed->rows.slots[i];
    if (!entry->key || entry->mark == feed->mark) continue;
    if (text_length(gone) >= budget) {
      entry->mark = feed->mark; /* keeps its place, and counts as gone in the next message */
      feed->is_cut = true;
      continue;
    }
    text_puts(gone, text_length(gone) ? ",[" : "[");
    text_integer(gone, kind_of_key(entry->key));
    text_puts(gone, ",");
    text_integer(gone, (int64_t)id_of_key(entry->key));
    text_puts(gone, "]");
  }
  if (!map_keep_marked(&feed->rows, feed->mark)) gone->failed = true;
}

/* Marks the existing rows, and returns how many have gone. */
static uint32_t mark_rows(Feed *feed, const View *view) {
  uint32_t there = 0;
  feed->mark++;
  for (uint32_t i = 0; i < view->n; i++) {
    MapEntry *entry = map_find(&feed->rows, row_key(&view->rows[i]));
    if (!entry) continue;
    there += entry->mark != feed->mark;
    entry->mark = feed->mark;
  }
  return feed->rows.n - there;
}

/* Adds rows that have changed to `rows`, and their new texts to `news`, until they are as long as `budget`. */
static void write_rows(Feed *feed, const View *view, size_t budget, Text *rows, Text *news) {
  uint32_t first = view->n ? feed->next % view->n : 0;
  feed->next = 0;
  for (uint32_t i = 0; i < view->n; i++) {
    uint32_t at = first + i < view->n ? first + i : first + i - view->n;
    const Row *row = &view->rows[at];
    MapEntry *entry = map_find(&feed->rows, row_key(row));
    uint64_t hash = row_hash(view, row);
    if (entry && entry->value == hash) continue;
    if (text_length(rows) + text_length(news) >= budget) {
      feed->next = at;
      feed->is_cut = true;
      return;
    }
    if (!entry) entry = map_add(&feed->rows, row_key(row));
    if (!entry) return;
    entry->mark = feed->mark;
    entry->value = hash;
    if (text_length(rows)) text_puts(rows, ",");
    write_row(feed, view, row, rows, news);
  }
}

void feed_write(Feed *feed, const View *view, Text *out, size_t budget) {
  Text rows = {0}, news = {0}, gone = {0};
  uint32_t ngone = mark_rows(feed, view);
  feed->is_cut = false;
  if (!feed->begun || feed->texts.n > MAX_TEXTS) {
    map_clear(&feed->texts);
    map_clear(&feed->rows);
    text_puts(out, "\"reset\":true,");
    feed->begun = true;
    ngone = 0;
  }
  if (ngone) write_gone(feed, budget / 2, &gone);
  write_rows(feed, view, budget > text_length(&gone) ? budget - text_length(&gone) : 0, &rows, &news);
  text_puts(out, "\"n\":[");
  text_append(out, &news);
  text_puts(out, "],\"u\":[");
  text_append(out, &rows);
  text_puts(out, "],\"d\":[");
  text_append(out, &gone);
  text_puts(out, feed->is_cut ? "],\"cut\":true" : "]");
  if (rows.failed || news.failed || gone.failed) out->failed = true;
  if (out->failed) feed->begun = false;
  text_free(&rows);
  text_free(&news);
  text_free(&gone);
}

void feed_free(Feed *feed) {
  map_free(&feed->rows);
  map_free(&feed->texts);
}
