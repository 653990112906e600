/* frame.h: the headers of WebSocket frames (RFC 6455, 5.2), and their masks. */
#ifndef RUNNEL_WEBSOCKET_FRAME_H
#define RUNNEL_WEBSOCKET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a frame is. */
enum {
  FRAME_CONTINUATION = 0,
  FRAME_TEXT = 1,
  FRAME_BINARY = 2,
  FRAME_CLOSE = 8, /* this and those behind it are control frames */
  FRAME_PING = 9,
  FRAME_PONG = 10
};

enum {
  FRAME_COMPRESSED = 4, /* the reserved bit of a compressed message (RFC 7692) */
  MASK_SIZE = 4,        /* bytes of a mask */
  MOST_OF_HEADER = 14,  /* bytes of a header */
  MOST_OF_CONTROL = 125 /* bytes of the payload of a control frame */
};

/* The header of a frame. */
typedef struct Frame {
  bool is_last;            /* of the frames of its message */
  bool has_mask;           /* its payload is masked */
  uint8_t reserved;        /* the three reserved bits */
  uint8_t opcode;          /* what it is */
  uint8_t mask[MASK_SIZE]; /* with has_mask */
  uint64_t length;         /* bytes of its payload */
} Frame;

/* Reads the header at the beginning of some bytes. Returns its size; 0 if there are too few bytes; -1 if no frame may
   have it: the length has a form that is longer than needed, or its first bit is set, or a control frame is longer than
   MOST_OF_CONTROL or in fragments. */
int frame_read(Frame *frame, const char *bytes, size_t size);

/* Writes a header to `to`, which has room for MOST_OF_HEADER bytes. Returns its size. */
size_t frame_write(const Frame *frame, char *to);

/* Masks a part of a payload that begins `at` bytes behind its start, or removes the mask. */
void frame_mask(const Frame *frame, uint64_t at, char *bytes, size_t size);

#endif
