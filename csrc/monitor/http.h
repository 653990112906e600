/* http.h: answers requests, after checking that the client may make them. Runs in the server's thread. */
#ifndef RUNNEL_MONITOR_HTTP_H
#define RUNNEL_MONITOR_HTTP_H

#include <microhttpd.h>

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

/* Callbacks of libmicrohttpd; `data` is the Site. */
enum MHD_Result http_answer(void *data, struct MHD_Connection *client, const char *url, const char *method,
                            const char *version, const char *upload, size_t *upload_size, void **request);
void http_connection(void *data, struct MHD_Connection *client, void **context,
                     enum MHD_ConnectionNotificationCode code);
void http_completed(void *data, struct MHD_Connection *client, void **request, enum MHD_RequestTerminationCode code);

#endif
