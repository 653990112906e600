/* server.h: an HTTP server with a thread of its own, and the requests that it passes to Lua.

   The thread handles connections (engine.h) and never touches Lua; thread.c and request.c run in it. The Lua thread
   answers requests (answer.c, module.c). The server's lock guards the fields that both threads use, and is held only
   briefly. The thread adds events to requests (kit/events.h); the Lua thread wakes the thread when it has answers.

   A Request is held by its connection, until it has ended, and by its userdata. */
#ifndef RUNNEL_HTTP_SERVER_H
#define RUNNEL_HTTP_SERVER_H

#include "base/thread.h"
#include "http/server/engine.h"
#include "http/server/tally.h"
#include "kit/events.h"

/* How many bytes of a body are buffered in each direction, before the client or the go block must wait. */
enum { BODY_WINDOW = 64 * 1024 };

/* Events of a request for the Lua thread. */
enum {
  EVENT_NEW = 1,     /* the head has arrived */
  EVENT_BODY = 2,    /* more of the body, or its end, has arrived */
  EVENT_ROOM = 4,    /* there is room for more of the response's body */
  EVENT_ENDED = 8,   /* the server has ended it: Request.why */
  EVENT_DRAINED = 16 /* an event of the server itself: it drains, and no connection is left */
};

/* Why the server has ended a request. */
typedef enum Why {
  NOT_ENDED,
  WHY_GONE,     /* the client has closed the connection, or reads too slowly */
  WHY_SLOW,     /* the client sends its body too slowly */
  WHY_LATE,     /* there was no response within the limit */
  WHY_TOO_LONG, /* its body is longer than the limit */
  WHY_WRONG,    /* its body breaks the rules of HTTP */
  WHY_MEMORY    /* there is no memory for its body */
} Why;

typedef struct Server {
  Handle handle;              /* held also by each Request */
  const runnel_functions *rn; /* the core's functions */
  Events events;              /* of requests, and EVENT_DRAINED */
  runnel_task task;           /* wakes the thread after ready go blocks have run */
  Thread thread;              /* runs the engine */
  int number;                 /* the number of the TCP port */
  ReplyDate date;             /* used by the Lua thread */
  Engine engine;              /* used by the thread, like the next field */
  bool has_drained;           /* no connection is left */
  pthread_mutex_t lock;       /* guards the rest, and parts of each Request */
  struct Request *resumed;    /* requests that Lua has changed: a list by Request.next_resumed, with a hold for each */
  bool drains;                /* the server is to drain */
  Tally tally;                /* of its requests */
} Server;

typedef struct Request {
  Handle handle;                /* held by the connection, the userdata, and the list in Server.resumed */
  Server *server;               /* with a hold; this and the fields up to `address` do not change */
  size_t nheaders;              /* headers in `text` */
  const char *target;           /* path and query as they were sent; in `text` */
  bool has_body;                /* there is a body */
  bool is_head;                 /* the response has no body */
  bool is_old;                  /* the client speaks HTTP/1.0 */
  bool asks_to_keep;            /* the client says `Connection: keep-alive` */
  bool keeps;                   /* the connection may stay open after this request */
  bool expects;                 /* the client waits for a status of 100 */
  bool can_upgrade;             /* the client offers another protocol */
  char address[ADDRESS_SIZE];   /* the client's */
  struct Request *next_changed; /* the next one that take_changes works on; used by the thread */
  bool has_chunks;              /* the response is sent in chunks; used by the Lua thread, like the next field */
  uint64_t promised; /* bytes that are missing to the length of the response; UINT64_MAX: the length is unknown */
  Conn *conn;        /* NULL once the connection has finished; Server.lock guards this and the rest */
  struct Request *next_resumed; /* in Server.resumed */
  bool is_resumed;              /* it is in Server.resumed */
  bool has_continued;           /* a status of 100 was sent, or is not needed */
  bool is_answered;             /* there is a response */
  unsigned status;              /* of the response */
  bool is_done;                 /* Lua has passed the whole response */
  bool is_cut;                  /* the response is incomplete */
  bool resets;                  /* only a reset of the connection shows the client that */
  bool closes;                  /* the connection ends after the response */
  bool upgrades;                /* the response changes the protocol */
  bool is_free;   /* the protocol has changed, and Lua may send: the connection has nothing to send, and no TLS */
  bool is_direct; /* the protocol has changed, and Lua receives from the socket itself */
  bool is_dry;    /* it has received all bytes that there were */
  runnel_reader *reader; /* notes that more have arrived; NULL before an upgrade, or if there can be none. The thread
                            uses it after the upgrade */
  bool is_whole;         /* the whole body has arrived */
  bool wants_body;       /* a go block waits for the body */
  bool wants_room;       /* a go block waits until it can write */
  Why why;               /* why the server has ended it */
  Bytes in;              /* bytes of the request's body that Lua has not taken */
  Bytes out;             /* bytes of the response that the connection has not taken */
  char text[];           /* method, then name and value of each header, then the target, each ended by a zero */
} Request;

/* ---- thread.c ---- */

/* Starts a server. module.c has set its Handle, limits and certificates; all other fields are zero. Returns false, with
   a message in `why`, on failure; server_stop must be called then, too. */
bool server_start(Server *server, const Place *place, char *why, size_t size);

/* Ends all connections and the thread, if it runs. The memory of the server stays until its last hold is released. */
void server_stop(Server *server);

/* HandleType.free of a Server that was passed to server_start. */
void server_free(void *object);

/* ---- request.c: what the connection calls; in the thread ---- */

extern const ConnUser request_user;

#define REQUEST_TYPE "runnel.http.request"
extern const HandleType request_type;

/* ---- answer.c: responses; in the Lua thread ---- */

/* Makes the thread look at a request that Lua has changed. With the lock. */
void request_resume(Request *request);

/* If Lua receives from the socket of the request itself: receives bytes of another protocol. False if there is no memory.
   With the lock, so that the connection stays open; any thread. */
bool request_receive(Request *request);

/* The methods of a request. */
extern const luaL_Reg answer_methods[];

#endif
