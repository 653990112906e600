/* server.h: an HTTP server with a thread of its own, and the requests that it passes to Lua.

   The thread handles connections (engine.h) and never touches Lua; thread.c and request.c run in it. The Lua thread
   answers requests (answer.c, module.c). The lock of the server guards what both use, and is held only briefly. The
   thread adds events to requests (kit/events.h); the Lua thread wakes the thread when it has answers.

   The connection holds its Request until that has ended; its userdata holds it, too. */
#ifndef RUNNEL_HTTP_SERVER_H
#define RUNNEL_HTTP_SERVER_H

#include "base/thread.h"
#include "http/server/engine.h"
#include "kit/events.h"

/* Bytes of a body that may wait, in either direction; with more, the client or the go block waits. */
enum { BODY_WINDOW = 64 * 1024 };

/* Events of a request for the Lua thread. */
enum {
  EVENT_NEW = 1,     /* its head has come */
  EVENT_BODY = 2,    /* more of its body has come, or the end */
  EVENT_ROOM = 4,    /* there is room for more of the response's body */
  EVENT_ENDED = 8,   /* the server has ended it: Request.why */
  EVENT_DRAINED = 16 /* of the server itself: no connection is left after it was asked to drain */
};

/* Why the server has ended a request. */
typedef enum Why {
  NOT_ENDED,
  WHY_GONE,     /* the client has closed the connection, or reads too slowly */
  WHY_SLOW,     /* the client sends its body too slowly */
  WHY_LATE,     /* it took longer than the limit */
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
  Engine engine;              /* used by the thread, as the next one */
  bool has_drained;           /* no connection is left */
  pthread_mutex_t lock;       /* guards the rest, and parts of each Request */
  struct Request *resumed;    /* a list, by Request.next_resumed: Lua has changed them; with holds */
  bool drains;                /* the server is to drain */
} Server;

typedef struct Request {
  Handle handle;                /* held by the connection, the userdata, and the list in Server.resumed */
  Server *server;               /* with a hold; does not change, as the next ones up to `address` */
  size_t nheaders;              /* headers in `text` */
  const char *target;           /* path and query as they were sent; in `text` */
  bool has_body;                /* there is a body */
  bool is_head;                 /* the response has no body */
  bool is_old;                  /* the client speaks HTTP/1.0 */
  bool asks_to_keep;            /* it says so */
  bool keeps;                   /* the connection may stay open after this request */
  bool expects;                 /* the client waits for a status of 100 */
  bool can_upgrade;             /* the client offers another protocol */
  char address[ADDRESS_SIZE];   /* the client's */
  struct Request *next_changed; /* of those that the thread looks at; used by the thread */
  bool has_chunks;              /* the response comes in chunks; used by the Lua thread, as the next one */
  uint64_t promised;            /* bytes of the response that are missing, by its length; UINT64_MAX: any number */
  Conn *conn;                   /* NULL once the connection has finished; Server.lock guards this and the rest */
  struct Request *next_resumed; /* in Server.resumed */
  bool is_resumed;              /* it is in that list */
  bool has_continued;           /* a status of 100 was sent, or is not needed */
  bool is_answered;             /* there is a response */
  bool is_done;                 /* Lua has given all of it */
  bool is_cut;                  /* it ends too early */
  bool resets;                  /* the client could not see that otherwise */
  bool closes;                  /* the connection ends after it */
  bool upgrades;                /* it changes the protocol */
  bool is_free;                 /* it has done so, and Lua may send: the connection has nothing to send, and no TLS */
  bool is_whole;                /* the whole body has come */
  bool wants_body;              /* a go block waits for the body */
  bool wants_room;              /* a go block waits until it can write */
  Why why;                      /* why the server has ended it */
  Bytes in;                     /* of the request's body, not taken by Lua */
  Bytes out;                    /* of the response, not taken by the connection */
  char text[];                  /* method, then name and value of each header, then the target, each ended by a zero */
} Request;

/* ---- thread.c ---- */

/* Starts a server that is zeros, but for its Handle, and what module.c sets: limits and certificates. Returns false, with
   a message in `why`, if that fails; server_stop must be called then, too. */
bool server_start(Server *server, const Place *place, char *why, size_t size);

/* Ends all connections and the thread, if it runs. The server stays for those that hold it. */
void server_stop(Server *server);

/* HandleType.free of a Server that server_start has got. */
void server_free(void *object);

/* ---- request.c: what the connection calls; in the thread ---- */

extern const ConnUser request_user;

#define REQUEST_TYPE "runnel.http.request"
extern const HandleType request_type;

/* ---- answer.c: responses; in the Lua thread ---- */

/* Makes the thread look at a request that Lua has changed. With the lock. */
void request_resume(Request *request);

/* The methods of a request. */
extern const luaL_Reg answer_methods[];

#endif
