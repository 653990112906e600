/* conn.h: a connection of an HTTP server, between its bytes and its user, who answers requests: its state, its beginning
   and its end. What comes is in input.h; advance.h moves it on.

   A connection has one request at a time. The user is a table of functions (ConnUser); the monitor is one, the requests
   that Lua answers another. All of this runs in the server's thread. The bytes of a response are the user's business,
   its head too (reply.h): the connection asks for them when the client can take more. */
#ifndef RUNNEL_HTTP_CONN_H
#define RUNNEL_HTTP_CONN_H

#include "http/server/chunks.h"
#include "http/server/head.h"
#include "http/server/listen.h"
#include "http/server/pace.h"
#include "http/server/poller.h"
#include "http/server/reply.h"
#include "http/server/timers.h"
#include "http/server/wire.h"

/* Bytes that are received at a time. */
enum { CONN_BLOCK = 64 * 1024 };

/* How a request has ended. */
typedef enum Ending {
  END_COMPLETE, /* its response has been sent */
  END_GONE,     /* the client has closed the connection, or reads too slowly */
  END_SLOW,     /* the client sends its body too slowly */
  END_LATE,     /* it had no response in time */
  END_TOO_LONG, /* its body is longer than the limit */
  END_WRONG     /* its body breaks the rules, or there is no memory for it */
} Ending;

struct Conn;

/* What a connection calls. */
typedef struct ConnUser {
  /* A connection has been opened, and closed; or NULL. */
  void (*opened)(struct Conn *conn);
  void (*closed)(struct Conn *conn);

  /* The head of a request has come; conn->has_body says whether a body follows. Sets conn->request. False if there is no
     memory: then the connection is closed. */
  bool (*begin)(struct Conn *conn, const Head *head);

  /* Bytes of its body have come. Returns how many it takes; if fewer, advance gives it the rest later. */
  size_t (*body)(struct Conn *conn, const char *bytes, size_t size);

  /* The body is complete; not called for a request without one. */
  void (*whole)(struct Conn *conn);

  /* Puts the next bytes of the response into conn->out, which is empty, if there are some; sets is_answered, is_done,
     is_cut, keeps and upgrades (below). After a change, advance makes the connection ask again. */
  void (*pull)(struct Conn *conn);

  /* The request has ended: the last call for it, and conn->request is NULL afterwards. */
  void (*ended)(struct Conn *conn, Ending ending);
} ConnUser;

/* The limits of a server; times in ns. */
typedef struct Limits {
  uint32_t connections; /* how many may be open; those above are told to come later */
  uint32_t per_address; /* how many from one address; 0: any number */
  bool counts_local;    /* that also holds for addresses of this machine */
  uint32_t requests;    /* how many a connection may have */
  size_t header;        /* bytes of a head */
  uint64_t body;        /* bytes of a body */
  int64_t head;         /* from the first byte of a head to its last */
  int64_t idle;         /* how long a connection may have no request, or a client may fall behind `rate` */
  int64_t rate;         /* how long it may take for a byte, of a body or of a response */
  int64_t request;      /* from a head until there is a response; 0: any time */
} Limits;

/* What the connections of a server share. */
typedef struct Hub {
  const ConnUser *user;     /* does not change, as the next ones up to `poller` */
  void *data;               /* the user's */
  Limits limits;            /* of the server */
  const tls_functions *lib; /* of `context` */
  TlsContext *context;      /* certificates; NULL without TLS */
  Poller poller;            /* watches the sockets */
  Timers timers;            /* of the connections */
  List conns;               /* Conn.link */
  List closed;              /* Conn.link: those that are freed at the end of this turn */
  uint32_t nconns;          /* connections, with closed ones */
  int64_t now;              /* the time of this turn, in ns */
  bool drains;              /* responses end their connections */
  ReplyDate date;           /* for responses of the server itself */
  char block[CONN_BLOCK];   /* bytes that are received */
} Hub;

/* What a connection waits for from the client. */
typedef enum Phase {
  PHASE_HEAD,   /* a head */
  PHASE_LENGTH, /* a body of a known length */
  PHASE_CHUNKS, /* a body in chunks */
  PHASE_WHOLE,  /* nothing: the request is complete */
  PHASE_RAW,    /* bytes of another protocol */
  PHASE_LINGER  /* its end: what comes is dropped, so that it reads the last response */
} Phase;

typedef struct Conn {
  Link link;         /* in Hub.conns or .closed */
  PollItem item;     /* the socket */
  SlotTimer timer;   /* when to look at it */
  Hub *hub;          /* of its server */
  void *request;     /* the user's; NULL: there is none, or it has ended */
  Wire wire;         /* its socket */
  Bytes in;          /* bytes that have come, and wait */
  Bytes out;         /* bytes of the response, to be sent */
  Phase phase;       /* what the client sends */
  bool is_closed;    /* it is in Hub.closed */
  bool is_greeting;  /* the handshake of TLS is not complete: it may take as long as a head */
  bool has_begun;    /* PHASE_HEAD: a byte of the head has come */
  bool is_half;      /* the client sends no more */
  bool has_body;     /* of this request, that follows its head */
  bool has_more;     /* the session of TLS has bytes that were not received */
  bool is_surplus;   /* there are too many connections: it is told so */
  bool expects;      /* the client waits for a status of 100 */
  bool is_answered;  /* there is a response */
  bool is_done;      /* all of it was given */
  bool is_cut;       /* it ends too early: so does the connection */
  bool resets;       /* the client cannot see that otherwise: by a reset */
  bool keeps;        /* the connection stays open after this request */
  bool client_keeps; /* the client wants that */
  bool upgrades;     /* the response changes the protocol */
  bool is_raw;       /* it has done so */
  size_t seen;       /* bytes of a head that were looked at */
  Chunks chunks;     /* of a body in chunks */
  uint64_t left;     /* bytes of a body that have not come; PHASE_LINGER: that are still dropped */
  uint64_t received; /* bytes of the body */
  int64_t since;     /* when the head was complete, in ns */
  int64_t until;     /* PHASE_HEAD, PHASE_LINGER: when the connection is closed */
  Pace reading;      /* how slowly the client sends */
  Pace writing;      /* how slowly it reads */
  size_t unread;     /* bytes that it had not read when that was last checked */
  uint32_t requests; /* that it has had */
  uint32_t slot;     /* of its address, in the server's counts */
  Peer peer;         /* the other end */
} Conn;

/* Begins a connection on a socket, which it owns; NULL, and the socket is closed, if there is no memory. */
Conn *conn_open(Hub *hub, int fd, const Peer *peer, bool is_surplus);

/* From now on, the next request is waited for. */
void conn_await_head(Conn *conn);

/* The request, if there is one, ends. */
void conn_end_request(Conn *conn, Ending ending);

/* Everything has been sent: waits until the client has read it, which a close at once could prevent. */
void conn_linger(Conn *conn);

/* Answers by the server itself, with a short text, and ends the connection; its request ends with `ending`. If a response
   has begun, that is cut. */
void conn_refuse(Conn *conn, unsigned status, const char *text, Ending ending);

/* Closes it, for a request that has not ended with END_GONE. It stays in Hub.closed until the turn ends. */
void conn_close(Conn *conn);

/* Frees one that is closed. */
void conn_free(Conn *conn);

/* Whether bytes wait to be sent. */
static inline bool conn_is_writing(const Conn *conn) {
  return bytes_length(&conn->out) || !wire_is_flushed(&conn->wire);
}

/* Bytes have come from the client, or gone to it. */
static inline void conn_progress(const Conn *conn, Pace *pace, size_t bytes) {
  pace_add(pace, bytes, conn->hub->limits.rate, conn->hub->limits.idle, conn->hub->now);
}

/* Whether it waits for a request of which no byte has come. */
static inline bool conn_is_idle(const Conn *conn) { return conn->phase == PHASE_HEAD && bytes_length(&conn->in) == 0; }

#endif
