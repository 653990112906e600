/* view.h: a snapshot as rows, the unit that pages receive. A row has a key; a page receives the rows that have changed
   since it last got them (feed.h). Numbers that change often are in separate rows, so that the others are not sent
   again. */
#ifndef RUNNEL_MONITOR_VIEW_H
#define RUNNEL_MONITOR_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "tracing/map.h"
#include "tracing/snapshot.h"

/* Up to this many go blocks, each has a row; of more, those with the same name and state share a row. */
enum { VIEW_SINGLE = 2000 };

/* Up to this many channels, each has rows; of more, channels share rows if they were made in the same line, or their
   names differ only in digits. Then, too, there are at most this many rows. */
enum { VIEW_CHANS = 4000 };

/* The most rows of go blocks. */
enum { VIEW_GOS = 4000 };

/* The fields after the key in a row, in this order. monitor.js reads them. */
typedef enum RowKind {
  ROW_CHAN, /* name; kind, limit, flags, channels, id of the first */
  ROW_FILL, /* puts, takes, count, nputs, ntakes */
  ROW_GO,   /* name, where; state, op, chan, nchans, since in ms, go blocks, id of the first */
  ROW_EDGE, /* name; chan, is_put, total or -1: that of the channel */
  ROW_KINDS
} RowKind;

enum { ROW_TEXTS = 2, ROW_NUMBERS = 7 };

typedef struct Row {
  uint64_t id;                  /* distinguishes the rows of a kind; below 2^53, as numbers in JavaScript */
  int64_t numbers[ROW_NUMBERS]; /* see RowKind */
  uint32_t texts[ROW_TEXTS];    /* texts of the snapshot */
  uint8_t kind;                 /* a RowKind */
} Row;

/* How many texts and numbers the rows of a kind have. */
typedef struct RowShape {
  uint8_t texts, numbers;
} RowShape;
extern const RowShape row_shapes[ROW_KINDS];

/* Begins as zeros. */
typedef struct View {
  const Snapshot *snapshot; /* the texts */
  Row *rows;                /* the rows */
  uint32_t n;               /* how many there are */
  size_t room;              /* the number that the memory has room for */
  uint32_t more;            /* go blocks without a row */
  uint32_t more_chans;      /* channels without a row */
  Map places;               /* if channels share rows: the id of a channel -> that of its row */
} View;

/* Makes the rows of a snapshot, which must stay unchanged while the view is used. Returns false if there is no memory;
   the view is then empty. */
bool view_make(View *view, const Snapshot *snapshot);

void view_free(View *view);

#endif
