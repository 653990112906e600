/* page.c: see page.h. */
#include "monitor/page.h"

#include <stdlib.h>

enum { BLOCK = 16 * 1024 };

/* libmicrohttpd asks for the next bytes. */
static ssize_t next_bytes(void *data, uint64_t position, char *to, size_t max) {
  Page *page = data;
  (void)position;
  if (page_is_idle(page)) {
    if (page->ended) return MHD_CONTENT_READER_END_OF_STREAM;
    page->suspended = true;
    MHD_suspend_connection(page->client);
    return 0;
  }
  return (ssize_t)bytes_take(&page->message.bytes, to, max);
}

static void connection_closed(void *data) { ((Page *)data)->gone = true; }

struct MHD_Response *page_response(Page *page) {
  return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, next_bytes, page, connection_closed);
}

void page_send(Page *page) {
  if (!page->suspended) return;
  page->suspended = false;
  MHD_resume_connection(page->client);
}

void page_free(Page *page) {
  feed_free(&page->feed);
  text_free(&page->message);
  free(page);
}
