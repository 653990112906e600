/* page.c: see page.h. */
#include "monitor/page.h"

void page_free(Page *page) {
  feed_free(&page->feed);
  text_free(&page->message);
  free(page);
}
