/* feed.h: remembers what one page has been sent, to find the rows that have changed. A message has as many of them as
   fit; the next message continues with the rest, in turn, so that every row is sent. */
#ifndef RUNNEL_MONITOR_FEED_H
#define RUNNEL_MONITOR_FEED_H

#include "monitor/text.h"
#include "monitor/view.h"
#include "tracing/map.h"

/* Begins as zeros. */
typedef struct Feed {
  Map rows;      /* key of a row -> hash of what was sent */
  Map texts;     /* hash of a text -> the number by which the page knows it */
  uint32_t next; /* the row to begin with */
  uint32_t mark; /* of the rows that the last view had */
  bool is_cut;   /* the last message did not have all rows that had changed */
  bool begun;    /* the page has been sent something; otherwise it must forget what it has */
} Feed;

/* Adds to `out` the fields of a JSON object (without braces): "n", new texts as [number, text]; "u", rows as [kind, id,
   texts..., numbers...]; "d", rows that are gone, as [kind, id]; "cut": true if there is more to send; and "reset":
   true if the page must forget everything first. Adds little more than `budget` bytes. If `out` fails, the next message
   begins anew. */
void feed_write(Feed *feed, const View *view, Text *out, size_t budget);

void feed_free(Feed *feed);

#endif
