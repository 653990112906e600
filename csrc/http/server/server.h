/* server.h: an HTTP server with a thread of its own, and the requests that it passes to Lua.

   The thread handles connections (engine.h) and never touches Lua; thread.c and request.c run in it. The Lua thread
   answers requests (answer.c, module.c). The server's lock guards the fields that both threads use, and is held only
   briefly. The thread adds events to requests (kit/events.h); the Lua thread wakes the thread when it has answers.

   A Request is held by its connection, until it has ended, and by its userdata.

   The folder has layers; each one uses only those above it in this list:

   1. head and chunks parse bytes; reply writes the head of a response.
   2. listen has the listening socket, wire the bytes of a connection with or without TLS; poller waits for sockets,
      timers for times. part is a part of a file, and loader has threads that read what of it is not in memory.
   3. conn: a connection, between its socket and its user. The user is a table of functions (ConnUser) for the head of
      a request, bytes of its body, the next bytes of the response, and the end of the request. input handles received
      bytes, advance decides what happens next: after any change it does all that is possible, and `settle` there
      decides what to wait for. A connection has one phase, which says what the client sends next, and what its user
      says of the response (Answer).
   4. engine accepts connections, and runs the loop for all of them. It does not depend on Lua, nor do the layers above
      it: the monitor uses them, too (monitor/http.c).
   5. thread, request, answer, folder and module: the user that passes requests to Lua.

   The response is a queue of bytes: Lua adds the head and the chunks, the thread only sends them. A part of a file may
   follow them, which the thread reads and sends. After an upgrade the Lua thread sends bytes itself, if no others wait
   and there is no TLS, which saves a wakeup for each message (`send_at_once` of answer.c), and receives bytes itself,
   too (request_receive): a reader tells it that some have arrived. The server's lock keeps the connection open
   meanwhile.

   A long string is sent by the Lua thread, too, since a copy for the thread costs more (`send_directly` of answer.c).
   The socket is lent to it for one send, which does not wait: Request.is_lent. */
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
  EVENT_NEW = 1,      /* the head has arrived */
  EVENT_BODY = 2,     /* more of the body, or its end, has arrived */
  EVENT_ROOM = 4,     /* there is room for more of the response's body */
  EVENT_ENDED = 8,    /* the server has ended it: Request.ending */
  EVENT_DRAINED = 16, /* an event of the server itself: it drains, and no connection is left */
  EVENT_CUT = 32      /* the response was cut, since its file could not be read: Request.part_error */
};

typedef struct Server {
  Handle handle;              /* held also by each Request */
  const runnel_functions *rn; /* the core's functions */
  Events events;              /* of requests, and EVENT_DRAINED */
  runnel_task task;           /* wakes the thread after ready go blocks have run */
  Thread thread;              /* runs the engine */
  atomic_bool drains;         /* the server is to drain */
  ReplyDate date;             /* used by the Lua thread */
  Engine engine;              /* used by the thread */
  pthread_mutex_t lock;       /* guards the rest, and parts of each Request */
  pthread_cond_t returned;    /* a Request is not lent any more */
  List resumed;               /* Request.resumed: those that Lua has changed, with a hold for each */
  Tally tally;                /* of its requests */
} Server;

typedef struct Request {
  Handle handle;              /* held by the connection, the userdata, and the list Server.resumed */
  Server *server;             /* with a hold; this and the fields up to `address` do not change */
  size_t nheaders;            /* headers in `text` */
  const char *target;         /* path and query as they were sent; in `text` */
  bool is_head;               /* the response has no body */
  bool is_old;                /* the client speaks HTTP/1.0 */
  bool can_upgrade;           /* the client offers another protocol */
  char address[ADDRESS_SIZE]; /* the client's */
  bool keeps;                 /* the connection may stay open; used by the Lua thread, like the next two fields */
  bool has_chunks;            /* the response is sent in chunks */
  uint64_t promised; /* bytes that are missing to the length of the response; UINT64_MAX: the length is unknown */
  Conn *conn;        /* NULL once the connection has finished; Server.lock guards this and the rest */
  Link resumed;      /* in Server.resumed, or in the thread's list of those that it looks at */
  bool expects;      /* the client waits for a status of 100 */
  bool is_continued; /* it has got, or will get, that status */
  bool is_lent;      /* the Lua thread sends on the socket: the thread must leave it alone, and open */
  Answer answer;     /* what the connection is told of the response */
  unsigned status;   /* of the response */
  bool is_free;      /* the protocol has changed, and Lua may send: the connection has nothing to send, and no TLS */
  bool is_dry;       /* answer.is_given: Lua has received all bytes that there were */
  runnel_reader *reader; /* notes that more have arrived; NULL before an upgrade, or if there can be none. The thread
                            uses it after the upgrade */
  bool is_whole;         /* the whole body has arrived */
  bool wants_body;       /* a go block waits for the body */
  bool wants_room;       /* a go block waits until it can write */
  Ending ending;         /* whether and why the server has ended it */
  Bytes in;              /* bytes of the request's body that Lua has not taken */
  Bytes trailers;        /* the lines behind a body in chunks */
  Bytes out;             /* bytes of the response that the connection has not taken */
  Part part;             /* of a file: what follows them */
  int part_error;        /* Conn.part_error, with EVENT_CUT */
  char text[];           /* method, then name and value of each header, then the target, each ended by a zero */
} Request;

static inline void server_lock(Server *server) { (void)pthread_mutex_lock(&server->lock); }
static inline void server_unlock(Server *server) { (void)pthread_mutex_unlock(&server->lock); }

/* ---- thread.c ---- */

/* Starts a server; engine.own then says where it listens. module.c has set its Handle, limits and certificates; all other fields
   are zero. Returns false, with a message in `why`, on failure; server_stop must be called then, too. */
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

/* Ends the response; with `is_cut` the client sees that it is incomplete. Returns false if it had ended. Then, and also
   after a change of the request, request_resume makes the thread look at it. Both with the lock. */
bool request_finish(Request *request, bool is_cut);
void request_resume(Request *request);

/* If Lua receives from the socket of the request itself: receives bytes of another protocol. False if there is no memory.
   With the lock, so that the connection stays open; any thread. */
bool request_receive(Request *request);

/* ---- folder.c: files of a folder; in the Lua thread ---- */

/* Pushes the function `open` of the module. */
void folder_push_open(lua_State *L);

/* The descriptor of the file at an index, which is now the caller's; -1 if it is closed. Raises if that is no file. */
int folder_take(lua_State *L, int at);

/* Makes the metatable of files. */
void folder_init(lua_State *L);

/* The methods of a request. */
extern const luaL_Reg answer_methods[];

#endif
