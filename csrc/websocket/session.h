/* session.h: one end of a WebSocket connection after its handshake (RFC 6455), without sockets: it turns bytes from the
   network into messages and other events, and messages into bytes for the network. A session that waits for a message
   holds no memory but its own. */
#ifndef RUNNEL_WEBSOCKET_SESSION_H
#define RUNNEL_WEBSOCKET_SESSION_H

#include "base/bytes.h"
#include "websocket/deflate.h"
#include "websocket/frame.h"
#include "websocket/utf8.h"

/* What has arrived from the other end. */
typedef enum Event {
  EVENT_NONE, /* nothing is complete: more bytes are needed, or the session is over */
  EVENT_TEXT,
  EVENT_BINARY,
  EVENT_PING,
  EVENT_PONG,
  EVENT_CLOSE,    /* a close frame; nothing follows */
  EVENT_FAILED,   /* the other end has broken the protocol or a limit: close with `code`; nothing follows */
  EVENT_NO_MEMORY /* a part of a message is lost; nothing follows */
} Event;

enum {
  CODE_NORMAL = 1000,
  CODE_PROTOCOL_ERROR = 1002,
  CODE_NONE = 1005,     /* a close frame without a code; never sent */
  CODE_NOT_UTF8 = 1007, /* wrong bytes in a message */
  CODE_TOO_LONG = 1009,
  MOST_OF_REASON = 123, /* bytes of the reason in a close frame */
  RANDOM_SIZE = 256     /* random bytes that are read at a time */
};

typedef struct Session {
  bool is_open;         /* it has not been closed */
  bool is_client;       /* this end sends frames with a mask, and gets frames without one */
  bool is_reproducible; /* masks are zeros, for simulations */
  bool is_over;         /* nothing more is read */
  int bits;             /* the window for sending compressed messages is 2^bits; 0: no compression */
  size_t max;           /* bytes of a message */

  Bytes in;           /* bytes of the network that were not used yet */
  Frame frame;        /* with in_frame: the header of the current frame */
  uint64_t arrived;   /* bytes of its payload that were used */
  bool in_frame;      /* a frame has begun */
  bool is_compressed; /* the message that is being received is compressed */
  uint8_t opcode;     /* of that message; 0: none */
  Utf8 utf8;          /* the state of checking its text */
  Bytes message;      /* the part of it that has arrived */
  Inflater *inflater; /* decompresses it; NULL: nothing was decompressed yet */
  Bytes control;      /* the payload of a control frame */

  Event event;     /* the event that session_consume has not removed yet */
  int code;        /* of EVENT_CLOSE and EVENT_FAILED */
  const char *why; /* of EVENT_FAILED: what was wrong */

  size_t random_left; /* how many bytes of `random` are unused */
  uint8_t random[];   /* of a client: RANDOM_SIZE bytes, for masks */
} Session;

/* The size of a session. */
static inline size_t session_size(bool is_client) { return sizeof(Session) + (is_client ? RANDOM_SIZE : 0); }

/* Frees what a session holds. A new one has is_open, is_client, is_reproducible, max and bits; all else is zero. */
void session_close(Session *session);

/* Adds bytes from the network. If there is no memory for them, the session is lost: session_next returns
   EVENT_NO_MEMORY. */
void session_feed(Session *session, const char *bytes, size_t size);

/* The next event: the same one until session_consume removes it. A message is in `message`; the payload of a ping or
   pong, and the reason of a close, is in `control`. */
Event session_next(Session *session);
void session_consume(Session *session);

/* Makes sure that there are random bytes for the mask of a frame; false if the system gives none. Call it before
   session_write. */
bool session_has_random(Session *session);

/* Writes a frame that is a whole message or a control frame to `to`, which has room for MOST_OF_HEADER more bytes than
   the payload. Returns the size of the frame. */
size_t session_write(Session *session, uint8_t opcode, bool is_compressed, const char *payload, size_t size, char *to);

/* Whether a close frame may carry a code: those of RFC 6455, the later 1012 to 1014, and 3000 to 4999. */
bool code_is_valid(int code);

/* Fills memory with random bytes; false if the system gives none. */
bool random_bytes(uint8_t *to, size_t size);

#endif
