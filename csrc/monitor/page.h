/* page.h: one open page: a stream of Server-Sent Events. If a page reads too slowly, messages are skipped, but no
   change is lost: the next message has every row that has changed since the last one. */
#ifndef RUNNEL_MONITOR_PAGE_H
#define RUNNEL_MONITOR_PAGE_H

#include <microhttpd.h>

#include "monitor/desk.h"
#include "monitor/feed.h"

typedef struct Page {
  struct Page *next;             /* the next page that is open */
  struct MHD_Connection *client; /* its connection */
  Feed feed;                     /* what it has received */
  Text message;                  /* the rest of the message that is being sent */
  uint64_t results;              /* results that it was sent */
  int64_t last_sent;             /* when the last message was made, in ns */
  bool suspended;                /* it waits for a message */
  bool ended;                    /* its last message has been made */
  bool gone;                     /* its connection is closed */
} Page;

/* A response that streams a page, or NULL if there is no memory. */
struct MHD_Response *page_response(Page *page);

/* Whether its last message has been sent completely. */
static inline bool page_is_idle(const Page *page) { return text_length(&page->message) == 0; }

/* Begins to send page->message, which is complete. */
void page_send(Page *page);

void page_free(Page *page);

#endif
