/* server.h: an HTTP server on libmicrohttpd with a thread of its own, and the requests that it passes to Lua.

   The thread handles connections (thread.c, request.c) and never touches Lua. The Lua thread makes the responses
   (answer.c) and reads requests (module.c). The lock of the server guards shared data, and is held only briefly. The
   thread adds events to requests (kit/events.h); the Lua thread wakes the thread when it has answers.

   The thread holds a Request until libmicrohttpd has finished with it; its userdata holds it, too. */
#ifndef RUNNEL_HTTPD_SERVER_H
#define RUNNEL_HTTPD_SERVER_H

#include <microhttpd.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/thread.h"
#include "kit/events.h"

/* Bytes of a body that may wait, in either direction; with more, the thread or the go block waits. */
enum { BODY_WINDOW = 64 * 1024 };

/* Characters of an address. */
enum { ADDRESS_SIZE = 46 };

/* Events of a request for the Lua thread. */
enum {
  EVENT_NEW = 1,     /* its headers have arrived */
  EVENT_BODY = 2,    /* more of its body has arrived, or the end */
  EVENT_ROOM = 4,    /* there is room for more of the response's body */
  EVENT_ENDED = 8,   /* the server has ended it: Request.why */
  EVENT_DRAINED = 16 /* of the server itself: no connection is left after it was asked to quiesce */
};

/* Why the server has ended a request. */
typedef enum Why {
  NOT_ENDED,
  WHY_GONE,     /* the client has closed the connection, or does not read */
  WHY_LATE,     /* it took longer than the limit */
  WHY_TOO_LONG, /* its body is longer than the limit */
  WHY_MEMORY    /* there is no memory for its body */
} Why;

/* The limits of a server; all times in ns. */
typedef struct Limits {
  unsigned connections; /* how many may be open */
  size_t header;        /* bytes of a request's line and headers */
  uint64_t body;        /* bytes of a request's body */
  int64_t idle;         /* how long a connection may have no request, or a client may not read */
  int64_t request;      /* from a request's headers until it has an answer; 0: any time */
} Limits;

typedef struct Server {
  Handle handle;              /* held also by each Request */
  const runnel_functions *rn; /* the core's functions */
  Events events;              /* of requests, and EVENT_DRAINED */
  runnel_task task;           /* wakes the thread after ready go blocks have run */
  Thread thread;              /* runs the daemon */
  int number;                 /* the number of the TCP port */
  Limits limits;              /* do not change */
  struct MHD_Daemon *daemon;  /* used by the thread, as the rest up to the lock */
  int64_t now;                /* the time of this turn, in ns */
  int64_t looked;             /* when requests and connections were last checked */
  List clients;               /* Client.link: connections without a request, the longest first */
  List known;                 /* Client.link: those known to Lua, the oldest first */
  uint32_t nopen;             /* connections */
  uint32_t nfresh;            /* unanswered requests that libmicrohttpd asks about in each turn */
  bool has_progressed;        /* bytes have arrived or left in this turn */
  bool has_quiesced;          /* it does not listen any more */
  bool has_drained;           /* and no connection is left */
  pthread_mutex_t lock;       /* guards the rest, and parts of each Request */
  struct Request *resumed;    /* a list, by Request.next_resumed: suspended ones that can go on */
  bool quiesces;              /* accept no more connections, and close those without a request */
} Server;

/* A connection. Used by the thread only. */
typedef struct Client {
  Link link;                     /* in Server.clients while it has no request */
  bool is_idle;                  /* it is there */
  int64_t since;                 /* since when, in ns */
  struct MHD_Connection *client; /* the connection */
  char address[ADDRESS_SIZE];    /* of the other end, as text */
} Client;

typedef struct Request {
  Handle handle;                 /* held by the thread, the userdata, and its response */
  Server *server;                /* with a hold */
  Link link;                     /* in Server.known; used by the thread, as the rest up to `head` */
  bool is_known;                 /* it is there */
  bool is_fresh;                 /* it is counted in Server.nfresh */
  int64_t since;                 /* when its headers had come, in ns */
  uint64_t received;             /* bytes of the body */
  char *head;                    /* method, then name and value of each header, each ended by 0; does not change */
  size_t nheaders;               /* how many of them; does not change */
  bool has_body;                 /* there may be a body; does not change */
  char address[ADDRESS_SIZE];    /* the client's; does not change */
  struct MHD_Connection *client; /* NULL once libmicrohttpd has finished; Server.lock guards this and the rest */
  struct MHD_Response *response; /* what Lua or the server answers, until libmicrohttpd has it; owned */
  unsigned status;               /* of the response */
  struct Request *next_resumed;  /* in Server.resumed */
  bool is_resumed;               /* it is in that list */
  bool is_suspended;             /* libmicrohttpd ignores the connection */
  bool is_answered;              /* it has, or had, a response */
  bool is_done;                  /* Lua has given the whole response */
  bool is_cut;                   /* the response ends too early: the connection is closed */
  bool is_whole;                 /* the whole body has arrived */
  bool discards;                 /* the rest of the body is not wanted */
  bool wants_body;               /* a go block waits for the body */
  bool wants_room;               /* a go block waits until it can write */
  Why why;                       /* why the server has ended it */
  Bytes in;                      /* of the request's body, not taken by Lua */
  Bytes out;                     /* of the response's body, not taken by libmicrohttpd */
  char target[];                 /* path and query, as they were sent; does not change */
} Request;

/* ---- thread.c ---- */

/* Starts a server that is zeros but for its Handle, on an address. Returns false, with a message in `why`, if that fails;
   server_stop must be called then, too. */
bool server_start(Server *server, const Limits *limits, const char *address, int number, char *why, size_t size);

/* Ends all connections and the thread, if it runs. The server stays for those that hold it. */
void server_stop(Server *server);

/* HandleType.free of a Server that server_start has got. */
void server_free(void *object);

#define REQUEST_TYPE "runnel.http.request"
extern const HandleType request_type; /* request.c */

/* ---- request.c: callbacks of libmicrohttpd, in the thread; `data` is the Server ---- */

void *request_begin(void *data, const char *target, struct MHD_Connection *client);
enum MHD_Result request_handle(void *data, struct MHD_Connection *client, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_size, void **context);
void request_completed(void *data, struct MHD_Connection *connection, void **context,
                       enum MHD_RequestTerminationCode code);
void request_connection(void *data, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code);

/* Ends requests whose client has gone, or that are late, and connections that are idle for too long. */
void request_look(Server *server);

/* ---- answer.c ---- */

/* Makes a suspended request go on. With the lock. */
void request_resume(Request *request);

/* Adds events to those of a request. */
static inline void request_tell(Request *request, unsigned events) {
  events_add(&request->server->events, request, events);
}

/* Gives a request a response, which it then owns, unless it has one or its client has gone: a response whose body is
   not complete holds its request. With the lock. */
void answer_with(Request *request, unsigned status, struct MHD_Response *response);

/* The same with a short text. */
void answer_text(Request *request, unsigned status, const char *text);

/* The answering go block is gone: answers instead, or cuts the answer. */
void request_abandon(Request *request);

/* A response whose body is written with Request.out, of `size` bytes or MHD_SIZE_UNKNOWN; or NULL. */
struct MHD_Response *answer_stream(Request *request, uint64_t size);

#endif
