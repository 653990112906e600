/* session.h: one end of a WebSocket connection after its handshake (RFC 6455), without sockets: it turns bytes from the
   network into messages and other events, and messages into bytes for the network.

   libwslay reads and writes the frames. Its event functions, which combine frames to messages, are not used: after a
   wrong frame they close without a code instead of with 1002; they refuse the codes 1012 to 1014; and they allocate a
   whole message as soon as its length is announced. */
#ifndef RUNNEL_WEBSOCKET_SESSION_H
#define RUNNEL_WEBSOCKET_SESSION_H

#include <sys/types.h> /* ssize_t, which wslay.h uses */
#include <wslay/wslay.h>

#include "base/bytes.h"
#include "websocket/deflate.h"
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
  MOST_OF_CONTROL = 125, /* bytes of a control frame */
  MOST_OF_REASON = 123,  /* bytes of the reason in a close frame */
  MOST_OF_HEADER = 14,   /* bytes of the header of a frame */
  MASK_SIZE = 4,         /* bytes of the mask of a frame */
  RANDOM_SIZE = 256      /* random bytes that are read at a time */
};

typedef struct Session {
  wslay_frame_context_ptr frames; /* reads and writes frames */
  bool is_client;                 /* this end sends frames with a mask, and gets frames without one */
  bool is_reproducible;           /* masks are zeros, for simulations */
  bool is_over;                   /* nothing more is read */
  size_t max;                     /* bytes of a message */
  int bits;                       /* the window for sending compressed messages is 2^bits; 0: no compression */

  Bytes in;                         /* bytes of the network that wslay has not read */
  bool in_frame;                    /* the header of the current frame has been checked */
  uint64_t left;                    /* bytes of the current frame that have not arrived */
  uint8_t opcode;                   /* of the message that is being received; 0: none */
  bool is_compressed;               /* that message is compressed */
  Bytes message;                    /* the part of that message that has arrived */
  Utf8 utf8;                        /* the state of checking its text */
  Inflater inflater;                /* decompresses it */
  uint8_t control[MOST_OF_CONTROL]; /* the payload of a control frame */
  size_t control_size;

  Event event;     /* the event that session_consume has not removed yet */
  int code;        /* of EVENT_CLOSE and EVENT_FAILED */
  const char *why; /* of EVENT_FAILED: what was wrong */

  char *out;                   /* the memory for the frame that is being sent */
  size_t out_size;             /* how many bytes were written to it */
  uint8_t random[RANDOM_SIZE]; /* for masks */
  size_t random_left;          /* how many of these bytes are unused */
} Session;

/* Begins a session. The caller has set is_client, is_reproducible, max and bits; all other fields are zero. False without memory. */
bool session_open(Session *session);
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
