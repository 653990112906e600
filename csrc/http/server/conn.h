/* conn.h: a connection of an HTTP server, between its socket and the code that answers requests (the user).

   A connection has one request at a time. The user is a table of functions (ConnUser). There are two: the monitor, and
   request.c, whose requests Lua answers. All of this runs in the server's thread. The user makes all bytes of a
   response, with its head (reply.h): the connection asks for them when the client can take more. */
#ifndef RUNNEL_HTTP_CONN_H
#define RUNNEL_HTTP_CONN_H

#include "http/server/chunks.h"
#include "http/server/head.h"
#include "http/server/listen.h"
#include "http/server/loader.h"
#include "http/server/pace.h"
#include "http/server/poller.h"
#include "http/server/reply.h"
#include "http/server/timers.h"
#include "http/server/wire.h"

/* How many bytes are received at a time; and how many of a file are sent, with the head of the response. */
enum { CONN_BLOCK = 64 * 1024, FILE_BLOCK = 128 * 1024 };

/* How a request has ended. */
typedef enum Ending {
  NOT_ENDED,
  END_COMPLETE, /* the user has given the whole response, and it has been sent */
  END_FAILED,   /* the user has given no response */
  END_GONE,     /* the client has closed the connection, or reads too slowly */
  END_SLOW,     /* the client sends its body too slowly */
  END_LATE,     /* there was no response within the limit */
  END_TOO_LONG, /* its body is longer than the limit */
  END_WRONG,    /* its body breaks the rules of HTTP */
  END_MEMORY    /* there is no memory for its body */
} Ending;

/* What the user says of its response. */
typedef struct Answer {
  bool has_begun; /* there is a response */
  bool is_done;   /* the user has passed the whole response */
  bool is_cut;    /* it is incomplete: the connection ends with it, or the client gets status 500 if it has not begun */
  bool resets;    /* closing the connection resets it: no bytes are left to the system, and the client notices */
  bool closes;    /* the connection ends after it */
  bool upgrades;  /* it changes the protocol */
  bool is_given;  /* the protocol has changed, and the user reads from the socket itself */
} Answer;

struct Conn;

/* The functions that a connection calls. */
typedef struct ConnUser {
  /* Called when a connection has been opened, and when it is closed; may be NULL. */
  void (*opened)(struct Conn *conn);
  void (*closed)(struct Conn *conn);

  /* Called when the head of a request has arrived; conn->has_body says whether a body follows. Must set conn->request.
     Returns false if there is no memory: then the connection is closed. */
  bool (*begin)(struct Conn *conn, const Head *head);

  /* Called with bytes of the body. Returns how many it takes; if not all, `advance` passes the rest again. */
  size_t (*body)(struct Conn *conn, const char *bytes, size_t size);

  /* Called with bytes of the lines behind a body in chunks; may be NULL. */
  void (*trailers)(struct Conn *conn, Slice bytes);

  /* Called when the body is complete; not called for a request without a body. */
  void (*whole)(struct Conn *conn);

  /* Called when the client can take more. Puts the next bytes of the response, if there are any, into conn->out, which
     is empty; sets conn->answer, and clears conn->expects if a status of 100 was sent. If the response ends with a part
     of a file, puts that into conn->part. Call `advance` when there is more, so that the connection calls this again. */
  void (*pull)(struct Conn *conn);

  /* Called last for each request, when it has ended. Afterwards conn->request is NULL. */
  void (*ended)(struct Conn *conn, Ending ending);

  /* Called when the server itself has given a response with this status, without a request of the user's; may be NULL. */
  void (*refused)(struct Conn *conn, unsigned status);
} ConnUser;

/* The limits of a server; times in ns. */
typedef struct Limits {
  uint32_t connections; /* how many may be open; further ones get status 503 */
  uint32_t per_address; /* how many one address may have open; 0: no limit */
  bool counts_local;    /* `per_address` also holds for addresses of this machine */
  uint32_t requests;    /* how many requests a connection may have */
  size_t header;        /* bytes of a head */
  uint64_t body;        /* bytes of a body */
  int64_t head;         /* the time from the first byte of a head to its last */
  int64_t idle;         /* how long a connection may have no request, or a client may fall behind `rate` */
  int64_t rate;         /* the time for each byte of a body or of a response */
  int64_t request;      /* the time from the end of a head to the response; 0: no limit */
} Limits;

/* The state that all connections of a server share. */
typedef struct Hub {
  const ConnUser *user;     /* this and the fields up to `poller` do not change */
  void *data;               /* the user's */
  Limits limits;            /* of the server */
  const tls_functions *lib; /* of `context` */
  TlsContext *context;      /* has the certificates; NULL without TLS */
  Poller poller;            /* watches the sockets */
  Timers timers;            /* of the connections */
  List conns;               /* Conn.link */
  List closed;              /* Conn.link: closed connections, freed at the end of this turn */
  Loader loader;            /* reads parts of files that are not in memory, for Conn.load */
  Wakeup *wakeup;           /* of the thread, for the loader */
  uint32_t nconns;          /* how many connections there are, closed ones included */
  int64_t now;              /* the time of this turn, in ns */
  bool drains;              /* the server drains: each connection ends after its response */
  ReplyDate date;           /* for responses of the server itself */
  char block[FILE_BLOCK];   /* the buffer for received bytes, and for those of files */
} Hub;

/* What the client sends next. */
typedef enum Phase {
  PHASE_HEAD,   /* a head */
  PHASE_LENGTH, /* a body of a known length */
  PHASE_CHUNKS, /* a body in chunks */
  PHASE_WHOLE,  /* nothing: the request is complete */
  PHASE_RAW,    /* bytes of another protocol */
  PHASE_LINGER  /* bytes to be dropped: the server waits for the client to close the connection */
} Phase;

typedef struct Conn {
  Link link;         /* in Hub.conns or .closed */
  PollItem item;     /* the socket */
  SlotTimer timer;   /* fires when conn_look must be called */
  Hub *hub;          /* of the server */
  void *request;     /* the user's; NULL: there is none, or it has ended */
  Wire wire;         /* its socket */
  Bytes in;          /* received bytes that were not used yet */
  Bytes out;         /* bytes of the response, to be sent */
  Part part;         /* the rest of the response, which follows them */
  Load *load;        /* the loader has `part`; NULL: it has not */
  int part_error;    /* why the file could not be read: an error number, or -1 if it has become shorter; 0: it could */
  Phase phase;       /* what the client sends next */
  bool is_closed;    /* it is in Hub.closed */
  bool is_greeting;  /* the TLS handshake is not complete; it has the same time limit as a head */
  bool has_begun;    /* PHASE_HEAD: a byte of the head has arrived */
  bool is_half;      /* the client has closed its sending side */
  bool is_shut;      /* nothing more can come or go: what has come is read without the poller, which would not wait */
  bool is_head;      /* the response to this request has no body, since its method is HEAD */
  bool has_body;     /* a body follows the head of this request */
  bool has_more;     /* the TLS session has bytes that were not received */
  bool is_surplus;   /* there are too many connections: its first request gets status 503 */
  bool expects;      /* the client waits for a status of 100 */
  Answer answer;     /* the response to this request */
  bool keeps;        /* the connection stays open after this request */
  bool client_keeps; /* the client allows that */
  bool is_raw;       /* the protocol has changed */
  size_t seen;       /* how many bytes of the head head_find has read */
  Chunks chunks;     /* of a body in chunks */
  uint64_t left;     /* bytes of the body that have not arrived; PHASE_LINGER: how many more bytes to drop */
  uint64_t received; /* bytes of the body */
  int64_t since;     /* when the head was complete, in ns */
  int64_t until;     /* PHASE_HEAD, PHASE_LINGER: when the connection is closed */
  Pace reading;      /* limits how slowly the client sends */
  Pace writing;      /* limits how slowly the client reads */
  size_t unread;     /* sent bytes that the client had not acknowledged at the last check */
  uint32_t requests; /* how many requests the connection has had */
  uint32_t slot;     /* the index of the address in Engine.counts */
  Peer peer;         /* the other end */
} Conn;

/* ---- conn.c: the beginning and the end ---- */

/* Makes a connection of a socket, and owns the socket. If there is no memory, closes the socket and returns NULL. */
Conn *conn_open(Hub *hub, int fd, const Peer *peer, bool is_surplus);

/* Begins to wait for the next request. */
void conn_await_head(Conn *conn);

/* Ends the request, if there is one. */
void conn_end_request(Conn *conn, Ending ending);

/* Call it when everything has been sent. Waits until the client has read it, since closing now could discard it. */
void conn_linger(Conn *conn);

/* Sends a response of the server itself, with a short text, and ends the connection; the request ends with `ending`. If
   a response has begun, it is cut instead. */
void conn_refuse(Conn *conn, unsigned status, const char *text, Ending ending);

/* Closes the connection; a running request ends with END_GONE. The Conn stays in Hub.closed until the turn ends. */
void conn_close(Conn *conn);

/* Frees a closed connection. */
void conn_free(Conn *conn);

/* ---- input.c: received bytes. These functions may close the connection ---- */

/* Whether to read from the socket: within a body, only once the user has taken all earlier bytes. */
bool input_is_wanted(const Conn *conn);

/* Uses the bytes in conn->in, as far as the phase and the user allow. */
void input_take(Conn *conn);

/* Receives bytes, and uses them. */
void input_receive(Conn *conn);

/* ---- advance.c: does all that is possible now, and decides what to wait for ---- */

/* Call it when the socket is ready. */
void advance_event(Conn *conn, unsigned bits);

/* Call it when the timer has fired. */
void advance_timer(Conn *conn);

/* Call it with what the loader has read: it goes to the connection, if that is still open. */
void advance_load(Load *load);

/* Makes the connection call its user again: to pass on bytes of a body, or to get the next bytes of a response. */
void advance(Conn *conn);

/* Whether bytes wait to be sent. */
static inline bool conn_is_writing(const Conn *conn) {
  return bytes_length(&conn->out) || conn->part.is_open || conn->load || !wire_is_flushed(&conn->wire);
}

/* Notes that bytes were received from the client, or sent to it. */
static inline void conn_progress(const Conn *conn, Pace *pace, size_t bytes) {
  pace_add(pace, bytes, conn->hub->limits.rate, conn->hub->limits.idle, conn->hub->now);
}

/* Whether it waits for the first byte of a request. */
static inline bool conn_is_idle(const Conn *conn) { return conn->phase == PHASE_HEAD && bytes_length(&conn->in) == 0; }

#endif
