/* frame.h: the frames of WebSocket (RFC 6455, section 5): their headers, and the masks of their payloads. */
#ifndef RUNNEL_WEBSOCKET_FRAME_H
#define RUNNEL_WEBSOCKET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opcodes; from 8 on those of control frames. */
enum { FRAME_CONTINUATION = 0, FRAME_TEXT = 1, FRAME_BINARY = 2, FRAME_CLOSE = 8, FRAME_PING = 9, FRAME_PONG = 10 };

/* The reserved bit of a compressed message (RFC 7692). */
enum { FRAME_COMPRESSED = 4 };

enum {
  MOST_OF_HEADER = 14,  /* bytes of a header */
  MOST_OF_CONTROL = 125 /* bytes of the payload of a control frame */
};

typedef struct Frame {
  bool is_last;    /* of its message */
  uint8_t bits;    /* the three reserved ones */
  uint8_t opcode;  /* see above */
  bool has_mask;   /* the payload is masked */
  uint8_t mask[4]; /* by these bytes in turn */
  uint64_t size;   /* bytes of the payload */
} Frame;

/* Results of frame_read other than a number of bytes. */
enum { FRAME_INCOMPLETE = 0, FRAME_WRONG = -1 };

/* Reads the header at the beginning of these bytes. Returns its size; or FRAME_INCOMPLETE; or FRAME_WRONG if its length is
   not in the shortest form, or it is a control frame that is too long or in fragments. */
int frame_read(Frame *frame, const uint8_t *bytes, size_t size);

/* Writes a header to `to`, which has room for MOST_OF_HEADER bytes; returns its size. */
size_t frame_write(const Frame *frame, uint8_t *to);

/* Masks a part of a payload, or removes the mask. `at`: the offset of the part in the payload. */
void frame_mask(const Frame *frame, uint8_t *bytes, size_t size, uint64_t at);

#endif
