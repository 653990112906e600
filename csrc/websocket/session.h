/* session.h: one end of a WebSocket connection after its handshake (RFC 6455), without sockets: bytes of the network in,
   messages and what else the other end says out; and messages in, bytes for the network out.

   libwslay reads and writes the frames. Its event functions, which would make messages of them, are not used: after a
   wrong frame they close without a code in place of 1002, they refuse the codes 1012 to 1014, and they take the memory
   of a whole message as soon as its length is announced. */
#ifndef RUNNEL_WEBSOCKET_SESSION_H
#define RUNNEL_WEBSOCKET_SESSION_H

#include <sys/types.h> /* ssize_t, which wslay.h uses */
#include <wslay/wslay.h>

#include "base/bytes.h"
#include "websocket/deflate.h"
#include "websocket/utf8.h"

/* What the other end has said. */
typedef enum Event {
  EVENT_NONE, /* nothing that is complete: more bytes are needed, or the session is over */
  EVENT_TEXT,
  EVENT_BINARY,
  EVENT_PING,
  EVENT_PONG,
  EVENT_CLOSE,    /* it closes the connection; nothing follows */
  EVENT_FAILED,   /* it has broken the protocol or a limit: close with `code`; nothing follows */
  EVENT_NO_MEMORY /* nothing follows, since a part of a message is lost */
} Event;

enum {
  CODE_NORMAL = 1000,
  CODE_PROTOCOL_ERROR = 1002,
  CODE_NONE = 1005,     /* a close frame without a code; never sent */
  CODE_NOT_UTF8 = 1007, /* wrong bytes in a message */
  CODE_TOO_LONG = 1009,
  MOST_OF_CONTROL = 125, /* bytes of a control frame */
  MOST_OF_REASON = 123,  /* bytes of the reason in a close frame */
  MOST_OF_HEADER = 14,   /* bytes of the header of a frame */
  MASK_SIZE = 4,         /* bytes of the mask of a frame */
  RANDOM_SIZE = 256      /* bytes of random numbers that are read at once */
};

typedef struct Session {
  wslay_frame_context_ptr frames; /* reads and writes frames */
  bool is_client;                 /* this end sends frames with a mask, and gets frames without one */
  bool is_over;                   /* nothing more is read */
  size_t max;                     /* bytes of a message */
  int bits;                       /* messages may be compressed: the window that may be used to send, 2^bits; 0: no */

  Bytes in;                         /* bytes of the network that wslay has not read */
  bool in_frame;                    /* the header of the current frame has been checked */
  uint64_t left;                    /* bytes of the current frame that have not come */
  uint8_t opcode;                   /* of the message that comes; 0: none comes */
  bool is_compressed;               /* that message is */
  Bytes message;                    /* what has come of it */
  Utf8 utf8;                        /* where its text stands */
  Inflater inflater;                /* decompresses it */
  uint8_t control[MOST_OF_CONTROL]; /* the payload of a control frame */
  size_t control_size;

  Event event;     /* that has not been consumed */
  int code;        /* of EVENT_CLOSE and EVENT_FAILED */
  const char *why; /* of EVENT_FAILED: what was wrong */

  char *out;                   /* where the frame that is sent goes */
  size_t out_size;             /* bytes of it so far */
  uint8_t random[RANDOM_SIZE]; /* for masks */
  size_t random_left;          /* how many of these bytes have not been used */
} Session;

/* Begins a session, which is all zeros but for is_client, max and bits; false if there is no memory. */
bool session_open(Session *session);
void session_close(Session *session);

/* Adds bytes of the network. Without memory for them, the session is lost: EVENT_NO_MEMORY follows. */
void session_feed(Session *session, const char *bytes, size_t size);

/* The next event; the same again until session_consume. A message is in `message`; the payload of a ping or pong, and the
   reason of a close, is in `control`. */
Event session_next(Session *session);
void session_consume(Session *session);

/* Makes sure that there are random bytes for a frame; false if the system gives none. Call it before session_write. */
bool session_has_random(Session *session);

/* Writes a frame that is a whole message or a control frame to `to`, which has room for MOST_OF_HEADER more bytes than
   the payload. Returns the size of the frame. */
size_t session_write(Session *session, uint8_t opcode, bool is_compressed, const char *payload, size_t size, char *to);

/* Whether a close frame may carry a code: those of RFC 6455, the later 1012 to 1014, and 3000 to 4999. */
bool code_is_valid(int code);

/* Fills memory with random bytes; false if the system gives none. */
bool random_bytes(uint8_t *to, size_t size);

#endif
