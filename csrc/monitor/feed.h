/* feed.h: remembers what one page has received, to find changed rows. A message has as many of them as fit; the next
   message continues with the rest, in turn, so that every row is sent. */
#ifndef RUNNEL_MONITOR_FEED_H
#define RUNNEL_MONITOR_FEED_H

#include "base/map.h"
#include "monitor/text.h"
#include "monitor/view.h"

/* Begins as zeros. */
typedef struct Feed {
  Map rows;      /* key of a row -> hash of the sent row */
  Map texts;     /* hash of a text -> the page's number for it */
  uint32_t next; /* the row to begin with */
  uint32_t mark; /* marks the rows of the last view */
  bool is_cut;   /* the last message did not have all changed rows */
  bool begun;    /* the page has received a message; otherwise it must forget its data */
} Feed;

/* Adds to `out` the fields of a JSON object (without braces): "n", new texts as [number, text]; "u", rows as [kind, id,
   texts..., numbers...]; "d", rows that have gone, as [kind, id]; "cut": true if the page does not have all rows of the view yet; and "reset": true if the
   page must forget everything first. Adds little more than `budget` bytes. If `out` fails, the next message begins
   anew. */
void feed_write(Feed *feed, const View *view, Text *out, size_t budget);

void feed_free(Feed *feed);

#endif
