/* page.h: one open page: a stream of Server-Sent Events. If a page reads too slowly, messages are skipped, but no
   change is lost: the next message has every row that has changed since the last one. */
#ifndef RUNNEL_MONITOR_PAGE_H
#define RUNNEL_MONITOR_PAGE_H

#include <stdlib.h>

#include "http/server/conn.h"
#include "monitor/desk.h"
#include "monitor/feed.h"

typedef struct Page {
  struct Page *next; /* the next page that is open */
  Conn *conn;        /* its connection; NULL once that has ended */
  Feed feed;         /* what it has received */
  Text message;      /* the message that is sent next */
  uint64_t results;  /* results that it was sent */
  int64_t last_sent; /* when the last message was made, in ns */
  int64_t turn;      /* the longest turn before the pictures since then, in ns */
  bool ended;        /* its last message has been made */
} Page;

/* Whether its last message has been sent completely. */
static inline bool page_is_idle(const Page *page) {
  return text_length(&page->message) == 0 && bytes_length(&page->conn->out) == 0;
}

/* Begins to send page->message, which is complete. */
static inline void page_send(const Page *page) { advance(page->conn); }

static inline void page_free(Page *page) {
  feed_free(&page->feed);
  text_free(&page->message);
  free(page);
}

#endif
