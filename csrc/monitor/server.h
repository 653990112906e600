/* server.h: the monitor's web server: a thread of its own, which never touches Lua or the scheduler. It serves the
   page, feeds the pages that are open, and passes their commands on. */
#ifndef RUNNEL_MONITOR_SERVER_H
#define RUNNEL_MONITOR_SERVER_H

#include "http/server/engine.h"
#include "kit/handle.h"
#include "monitor/http.h"
#include "monitor/summary.h"

/* The usual time between two snapshots, in ms. */
enum { SERVER_PERIOD = 500 };

/* Fields that server_start sets do not change afterwards. The others belong to the server's thread. */
typedef struct Server {
  Handle handle;     /* held only by its userdata */
  Site site;         /* the data for answering requests */
  Engine engine;     /* run by the thread */
  char url[96];      /* where the page is, with the token */
  char program[128]; /* the program's name */
  char why[512];     /* what has ended the program, as far as it is known; set before the thread is ended */
  int period;        /* how often the scheduler is asked for a snapshot, in ms */
  View view;         /* the shown snapshot, as rows */
  bool has_view;     /* there has been a snapshot */
  Runner runs;       /* what runs while the scheduler is late */
  Runner ran;        /* what ran before it took the shown snapshot */
  int64_t due;       /* when to ask for the next one */
} Server;

/* Starts a server, which is zeros but for its Handle, on a port, or on any free one if that is 0. `watch` must stay
   until the server has stopped, and `program` is copied; a snapshot is asked for every `period` ms. Returns false on
   failure, with a message in `why`. */
bool server_start(Server *server, Watch *watch, int port, bool control, const char *program, int period, char why[256]);

/* Ends the pages' streams and the thread, if it runs. */
void server_stop(Server *server);

/* HandleType.free */
void server_free(void *object);

#endif
