/* buffer.h: what a channel's buffer does when, and in which slot: policy and slot arithmetic. The values themselves lie
   with the channel (chan.c); a buffer knows no Lua.

   The slots are a ring of `size`. A small buffer has all of them from the start; a large one begins with few and grows up to
   the limit (and beyond it only where a transducer turns one value into many). */
#ifndef RUNNEL_BUFFER_H
#define RUNNEL_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

/* The largest buffer: its slots are counted in 32 bits with room to double. */
#define BUFFER_MAX INT32_MAX

typedef enum BufferKind {
  BUFFER_NONE,     /* a rendezvous: never room */
  BUFFER_FIXED,    /* full at its limit: further puts wait */
  BUFFER_DROPPING, /* at its limit it drops the new value */
  BUFFER_SLIDING,  /* at its limit it drops the oldest value */
  BUFFER_PROMISE,  /* keeps its first value for ever, for every taker */
  BUFFER_POLICY    /* a Lua object decides; its count is asked, not kept here */
} BufferKind;

typedef struct Buffer {
  uint32_t limit; /* values it holds; 0 without a buffer */
  uint32_t size;  /* slots there are now */
  uint32_t head;  /* slot of the oldest value */
  uint32_t count; /* values in it */
  uint8_t kind;   /* a BufferKind */
  uint8_t base;   /* where the channel keeps slot 0: which of its user values it is, or 0 for a table */
} Buffer;

/* What adding a value means for the slots. */
typedef enum BufferAdd {
  BUFFER_ADD,  /* it goes behind the others */
  BUFFER_DROP, /* it is dropped */
  BUFFER_SLIDE /* the oldest value goes first, then it is added */
} BufferAdd;

/* Whether a put must wait. Not for BUFFER_POLICY. */
static inline bool buffer_full(const Buffer *b) { return b->count >= b->limit && b->kind <= BUFFER_FIXED; }

/* Whether a buffer of this kind never makes a put wait. */
static inline bool buffer_unblocking(BufferKind kind) { return kind >= BUFFER_DROPPING && kind <= BUFFER_PROMISE; }

/* What to do with one more value. Not for BUFFER_POLICY. */
static inline BufferAdd buffer_add(const Buffer *b) {
  if (b->count < b->limit || b->kind <= BUFFER_FIXED) return BUFFER_ADD;
  return b->kind == BUFFER_SLIDING ? BUFFER_SLIDE : BUFFER_DROP;
}

/* The size to grow to when every slot is taken. */
uint32_t buffer_grown(const Buffer *b);

/* The slot for the next value, 0-based; there must be one: count < size. */
static inline uint32_t buffer_tail(const Buffer *b) {
  uint32_t tail = b->head + b->count;
  return tail < b->size ? tail : tail - b->size;
}

/* Counts the oldest value as gone. */
static inline void buffer_advance(Buffer *b) {
  b->count--;
  b->head++;
  /* An emptied ring starts again in front: few values keep to few slots. */
  if (b->head == b->size || b->count == 0) b->head = 0;
}

#endif
