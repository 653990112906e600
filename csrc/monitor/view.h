/* view.h: a snapshot as rows, the unit that pages receive. A row has a key; a page receives the rows that have changed
   since it last got them (feed.h). Numbers that change often are in separate rows, so that the others are not sent
   again. */
#ifndef RUNNEL_MONITOR_VIEW_H
#define RUNNEL_MONITOR_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "tracing/snapshot.h"

/* Up to this many go blocks and channels, each has rows. Of more, those share rows whose names differ only in digits:
   go blocks that do the same in the same line, and channels that are alike. */
enum { VIEW_SINGLE = 300, VIEW_CHANS = 1000 };

/* The most rows of a kind: a picture has at most 256 KB. The rows with less are left out: with fewer go blocks, and
   channels and edges with fewer values. */
enum { VIEW_GOS = 500, VIEW_EDGES = 2000 };

/* The fields after the key in a row, in this order. monitor.js reads them. */
typedef enum RowKind {
  ROW_CHAN, /* name; kind, limit, flags, channels, id of the first; the next row is that of its fill */
  ROW_FILL, /* puts, takes, count, nputs, ntakes, of a channel with a row of its own SnapshotChan.last or -1 */
  ROW_GO,   /* name, where; state, op, chan, nchans, since in ms, go blocks, id of the first */
  ROW_EDGE, /* name; chan, is_put, total, rounded down to two digits, or -1: that of the channel */
  ROW_KINDS
} RowKind;

enum { ROW_TEXTS = 2, ROW_NUMBERS = 7 };

typedef struct Row {
  uint64_t id;                  /* distinguishes the rows of a kind; below 2^53, as numbers in JavaScript */
  int64_t numbers[ROW_NUMBERS]; /* see RowKind */
  uint32_t texts[ROW_TEXTS];    /* see view_text */
  uint8_t kind;                 /* a RowKind */
} Row;

/* How many texts and numbers the rows of a kind have. */
typedef struct RowShape {
  uint8_t texts, numbers;
} RowShape;
extern const RowShape row_shapes[ROW_KINDS];

/* Begins as zeros. */
typedef struct View {
  const Snapshot *snapshot; /* what it shows */
  Row *rows;                /* the rows */
  uint32_t n;               /* how many there are */
  size_t room;              /* the number that the memory has room for */
  uint32_t more;            /* go blocks without a row */
  uint32_t more_chans;      /* channels without a row */
  uint64_t more_edges;      /* edges without a row, and those that the trace has not counted */
  uint64_t puts;            /* values put since the first view, and before on the channels that there were then */
  Map counts;               /* id of a channel, and side -> its puts or takes in the last view */
  Map totals;               /* id of a shared row, and side -> the puts or takes of its channels, of past ones too */
  uint32_t mark;            /* marks what is in use of these two */
  Map places;               /* if channels share rows: the id of a channel -> that of its row */
  Map kept;                 /* and the ids of the rows that are not left out */
  Map patterns;             /* hash of a name without digits -> its place in `names` */
  SnapshotArray names;      /* of char: these names, each with a zero at its end */
} View;

/* A text of a row. */
const char *view_text(const View *view, uint32_t text);

/* Makes the rows of a snapshot, which must stay unchanged while the view is used. Returns false if there is no memory;
   the view is then empty. */
bool view_make(View *view, const Snapshot *snapshot);

void view_free(View *view);

#endif
