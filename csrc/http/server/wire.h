/* wire.h: sends and receives the bytes of a connection; encrypted, if it has a TLS session. No function blocks. */
#ifndef RUNNEL_HTTP_WIRE_H
#define RUNNEL_HTTP_WIRE_H

#include "base/bytes.h"
#include "tls/tls.h"

/* Results of wire_receive other than a number of bytes. */
enum {
  WIRE_NONE = 0,  /* no bytes for now */
  WIRE_END = -1,  /* the other end has closed its sending side */
  WIRE_LOST = -2, /* the connection is broken, or the session has failed */
  WIRE_PLAIN = -3 /* the client speaks HTTP without TLS; the session has ended, and wire_send sends plain bytes */
};

typedef struct Wire {
  int fd;                   /* the socket; owned */
  const tls_functions *lib; /* the functions for `tls` */
  Tls *tls;                 /* the session; owned; NULL without TLS */
  bool has_begun;           /* bytes of the session have been received */
  bool has_failed;          /* the session has failed: only its alert is still sent */
} Wire;

/* Closes the socket and frees the rest. */
void wire_close(Wire *wire);

/* Receives bytes, at most `max`, into `to`; `max` must be 16 KB at least. With TLS it may return 0 although the socket
   had bytes. *has_more: the session has bytes, which a poller does not report; call this again. */
ptrdiff_t wire_receive(Wire *wire, char *to, size_t max, bool *has_more);

/* Sends as much of `out` as the socket takes. Returns the number of bytes, or -1 if the connection is broken. */
ptrdiff_t wire_send(Wire *wire, Bytes *out);

/* Sends a text and another one, as much of both as the socket takes, without TLS. Returns the number of bytes; 0 also if
   the connection is broken. Any thread, while no other one sends. */
size_t wire_send_two(const Wire *wire, const char *first, size_t nfirst, const char *second, size_t nsecond);

/* Whether all that wire_send was given has been sent. */
static inline bool wire_is_flushed(const Wire *wire) { return !wire->tls || wire->lib->pending(wire->tls) == 0; }

/* Call it when nothing more will be sent: ends the TLS session, if there is one. wire_send sends the bytes that this
   adds. */
void wire_end(Wire *wire);

/* Whether the socket has bytes that were not received. Closing it would then reset the connection. */
bool wire_has_unread(const Wire *wire);

/* How many sent bytes the other end has not acknowledged; 0 if the system cannot tell. */
size_t wire_unacknowledged(const Wire *wire);

#endif
