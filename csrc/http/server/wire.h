/* wire.h: the bytes of a connection, to and from its socket; with TLS, if it has a session, encrypted. Nothing blocks. */
#ifndef RUNNEL_HTTP_WIRE_H
#define RUNNEL_HTTP_WIRE_H

#include "base/bytes.h"
#include "tls/tls.h"

/* Results of wire_receive, beside a number of bytes. */
enum {
  WIRE_NONE = 0, /* no bytes for now */
  WIRE_END = -1, /* the other end sends no more */
  WIRE_LOST = -2 /* the connection is broken, or the session has failed */
};

typedef struct Wire {
  int fd;                   /* the socket; owned */
  const tls_functions *lib; /* of `tls` */
  Tls *tls;                 /* the session; owned; NULL without TLS */
  bool has_failed;          /* the session has: only its alert is still sent */
  Bytes sealed;             /* encrypted bytes that the socket has not taken */
} Wire;

/* Closes the socket and frees the rest. */
void wire_close(Wire *wire);

/* Receives bytes, at most `max`, into `to`; `max` must be 16 KB at least. With TLS it may return 0 although the socket had
   some. *has_more: there are decrypted ones, of which no poller tells; call it again. */
ptrdiff_t wire_receive(Wire *wire, char *to, size_t max, bool *has_more);

/* Sends what there is in `out`, as much as the socket takes; false if the connection is broken. *sent: how many bytes
   were sent. */
bool wire_send(Wire *wire, Bytes *out, size_t *sent);

/* Whether all that wire_send was given has been sent. */
static inline bool wire_is_flushed(const Wire *wire) {
  return bytes_length(&wire->sealed) == 0 && (!wire->tls || wire->lib->pending(wire->tls) == 0);
}

/* Nothing more will be sent: ends the session, too, if there is one. wire_send sends what that adds. */
void wire_end(Wire *wire);

/* Whether the socket has bytes that were not received: closing it would then reset the connection. */
bool wire_has_unread(const Wire *wire);

/* How many bytes of those sent the other end has not acknowledged; 0 if the system does not say. */
size_t wire_unacknowledged(const Wire *wire);

#endif
