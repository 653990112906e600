/* http.h: answers requests, after checking that the client may make them: a user of the HTTP server's connections. Runs in
   the server's thread. */
#ifndef RUNNEL_MONITOR_HTTP_H
#define RUNNEL_MONITOR_HTTP_H

#include "monitor/desk.h"
#include "monitor/page.h"
#include "monitor/visitors.h"

/* Characters of the token. */
enum { TOKEN_LENGTH = 32 };

/* Pages that may be open at a time. */
enum { MAX_PAGES = 16 };

/* The data for answering requests. */
typedef struct Site {
  Desk desk;                    /* the exchange with the scheduler */
  int port;                     /* of the server */
  bool control;                 /* pages may kill and inject */
  char token[TOKEN_LENGTH + 1]; /* the secret of the page */
  Visitors visitors;            /* connections without the token */
  Page *pages;                  /* the pages that are open */
  uint32_t npages;              /* how many */
  bool has_new_page;            /* one was opened, and has no message yet */
} Site;

/* What connections call; Hub.data is the Site. */
extern const ConnUser http_user;

#endif
