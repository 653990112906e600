/* server.h: the monitor's web server: a thread of its own, which never touches Lua or the scheduler. It serves the page,
   feeds the pages that are open, and passes their commands on. */
#ifndef RUNNEL_MONITOR_SERVER_H
#define RUNNEL_MONITOR_SERVER_H

#include <microhttpd.h>
#include <pthread.h>

#include "monitor/desk.h"
#include "monitor/page.h"
#include "monitor/view.h"

/* Characters of the token. */
enum { TOKEN_LENGTH = 32 };

/* Pages that may be open at a time. */
enum { MAX_PAGES = 16 };

/* What server_start has set does not change after that. All else belongs to the server's thread. */
typedef struct Server {
  Desk desk;                    /* what passes to and from the scheduler */
  struct MHD_Daemon *daemon;    /* run by the thread */
  pthread_t thread;             /* runs the daemon and feeds the pages */
  int port;                     /* of the server */
  bool control;                 /* pages may kill and inject */
  char token[TOKEN_LENGTH + 1]; /* what a page must know */
  char url[96];                 /* where the page is, with the token */
  char program[128];            /* the program's name */
  Page *pages;                  /* the pages that are open */
  uint32_t npages;              /* how many */
  View view;                    /* the snapshot that is shown, as rows */
  bool has_view;                /* there has been one */
  int64_t asked;                /* when a snapshot was asked for last, in ns */
  int64_t due;                  /* when to ask for the next */
} Server;

/* Starts a server on a port, or on any that is free if that is 0. `watch` must stay until the server has stopped, and
   `program` is copied. Returns NULL, with a message in `why`, if that fails. */
Server *server_start(Watch *watch, int port, bool control, const char *program, char why[256]);

/* Ends the pages' streams and the thread, and frees the server. */
void server_stop(Server *server);

/* Adds a page, which gets its first message at once if there is one; the server frees it. */
void server_add_page(Server *server, Page *page);

#endif
