/* value.h: a value on its way from one lua_State to another. It is a copy: what a shared channel carries belongs to no
   state. Knows no Lua; packing and unpacking are done above. */
#ifndef RUNNEL_SHARED_VALUE_H
#define RUNNEL_SHARED_VALUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/budget.h"

struct SharedChan;

/* The longest string that a value holds in itself. */
enum { SHARED_SHORT_MAX = 16 };

typedef enum SharedKind {
  SHARED_NIL, /* no value: the result of a take from a closed channel */
  SHARED_FALSE,
  SHARED_TRUE,
  SHARED_INTEGER,
  SHARED_NUMBER,
  SHARED_SHORT,  /* a short string, in the value itself */
  SHARED_LONG,   /* a string, in a parcel */
  SHARED_PACKED, /* a table, in a parcel */
  SHARED_CHAN    /* a shared channel, by reference */
} SharedKind;

/* The bytes of a long value, and the channels to which a packed table refers. Constant once a value points to it, so
   that any number of values may. */
typedef struct Parcel {
  atomic_uint holds;          /* values that point to it; the last to drop it frees it */
  uint32_t nchans;            /* channels it refers to; it holds each of them */
  size_t size;                /* bytes */
  Budget *budget;             /* of which its memory is taken, or NULL */
  char *bytes;                /* the bytes, behind the channels */
  struct SharedChan *chans[]; /* the channels */
} Parcel;

typedef struct SharedValue {
  uint8_t kind;    /* a SharedKind */
  uint8_t size;    /* length of as.text */
  uint32_t number; /* of the put on its channel, for a trace; see SharedResult */
  union {
    int64_t integer;
    double number;
    char text[SHARED_SHORT_MAX];
    Parcel *parcel;          /* the value owns a hold */
    struct SharedChan *chan; /* the value owns a hold */
  } as;
} SharedValue;

/* A copy of these bytes and channels, with one hold on it, and a hold on each channel; NULL when memory, or the budget
   (if any), runs out. */
Parcel *parcel_new(const char *bytes, size_t size, struct SharedChan *const *chans, uint32_t nchans, Budget *budget);

/* Makes it a string of `size` bytes; false when memory, or the budget (if any), runs out, and it is SHARED_NIL. It must
   hold nothing before. */
bool shared_value_set_string(SharedValue *value, const char *bytes, size_t size, Budget *budget);

/* Makes a copy. Cannot fail. */
SharedValue shared_value_copy(const SharedValue *value);

/* Releases what the value holds. It is SHARED_NIL then. */
void shared_value_drop(SharedValue *value);

/* The same; a channel that nothing holds any more is added to a list, for shared_chan_free. */
void shared_value_let_go(SharedValue *value, struct SharedChan **unheld);

#endif
