/* buffer.h: the kinds of buffer, and the arithmetic of the ring of slots. The channel has the values (chan.c); a buffer
   knows nothing of Lua.

   The ring has `size` slots. A small buffer has all of them from the start; a large one begins with few and grows up to
   the limit (and above it only if a transducer turns one value into many). */
#ifndef RUNNEL_BUFFER_H
#define RUNNEL_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

/* The largest buffer: its slots are counted in 32 bits with room to double. */
#define BUFFER_MAX INT32_MAX

typedef enum BufferKind {
  BUFFER_NONE,     /* no buffer (a rendezvous): never room */
  BUFFER_FIXED,    /* at its limit it is full: puts wait */
  BUFFER_DROPPING, /* at its limit it drops the new value */
  BUFFER_SLIDING,  /* at its limit it drops the oldest value */
  BUFFER_PROMISE,  /* keeps its first value forever, for every taker */
  BUFFER_POLICY,   /* a Lua object decides; it has the values and their count */
  BUFFER_SHARED    /* a handle's: the shared channel decides, and has the values (states/shared_ops.h) */
} BufferKind;

/* Without a buffer a channel has memory only for the fields before the limit. */
typedef struct Buffer {
  uint8_t kind;   /* a BufferKind */
  uint8_t base;   /* the user value of the channel that is slot 0; 0 if the slots are in a table */
  uint16_t label; /* the channel's (tracing/trace.h); here because there is room */
  uint32_t limit; /* values it holds */
  uint32_t size;  /* slots that there are now */
  uint32_t head;  /* slot of the oldest value */
  uint32_t count; /* values in it */
} Buffer;

/* How adding a value changes the slots. */
typedef enum BufferAdd {
  BUFFER_ADD,  /* add it behind the others */
  BUFFER_DROP, /* drop it */
  BUFFER_SLIDE /* remove the oldest value, then add it */
} BufferAdd;

/* Whether a put must wait. Not for BUFFER_POLICY and BUFFER_SHARED. */
static inline bool buffer_full(const Buffer *b) {
  return b->kind == BUFFER_NONE || (b->kind == BUFFER_FIXED && b->count >= b->limit);
}

/* Values in it. Not for BUFFER_POLICY and BUFFER_SHARED. */
static inline uint32_t buffer_count(const Buffer *b) { return b->kind == BUFFER_NONE ? 0 : b->count; }

/* Whether a buffer of this kind never makes a put wait. Not for BUFFER_POLICY and BUFFER_SHARED. */
static inline bool buffer_unblocking(BufferKind kind) { return kind >= BUFFER_DROPPING; }

/* The action for one more value. Not for BUFFER_POLICY and BUFFER_SHARED. */
static inline BufferAdd buffer_add(const Buffer *b) {
  if (b->count < b->limit || b->kind <= BUFFER_FIXED) return BUFFER_ADD;
  return b->kind == BUFFER_SLIDING ? BUFFER_SLIDE : BUFFER_DROP;
}

/* The slots that a buffer has first, if its limit is larger. */
enum { BUFFER_FIRST_SIZE = 8 };

/* The size to grow to when every slot is taken: no more than the limit, unless a transducer needs more. */
static inline uint32_t buffer_grown(const Buffer *b) {
  uint32_t size = b->size ? b->size * 2 : b->limit < BUFFER_FIRST_SIZE ? b->limit : BUFFER_FIRST_SIZE;
  return b->size < b->limit && size > b->limit ? b->limit : size;
}

/* The slot for the next value, 0-based; there must be one: count < size. */
static inline uint32_t buffer_tail(const Buffer *b) {
  uint32_t tail = b->head + b->count;
  return tail < b->size ? tail : tail - b->size;
}

/* Whether the ring begins again at slot 0 when the oldest value is removed: when it becomes empty, too, so that few
   values use few slots. */
static inline bool buffer_at_end(const Buffer *b) { return b->head + 1 == b->size || b->count == 1; }

/* Removes the oldest value from the count. */
static inline void buffer_advance(Buffer *b) {
  b->count--;
  b->head++;
  if (b->head == b->size || b->count == 0) b->head = 0;
}

#endif
