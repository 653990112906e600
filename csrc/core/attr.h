/* attr.h: attributes of a channel: what few channels have, in a table that is made when it is first needed. The table
   also holds the go blocks that only this channel keeps alive (root.h), with their userdata as keys and their
   coroutines as values.

   `at` is the absolute index of the channel's userdata in L. */
#ifndef RUNNEL_ATTR_H
#define RUNNEL_ATTR_H

#include "core/state.h"

/* Keys of the table. */
typedef enum Attr {
  ATTR_REASON = 1, /* why it was closed. First, so that Lua keeps its place in the array of the table */
  ATTR_NAME,       /* the name given to it */
  ATTR_DONE,       /* a channel that closes when it does */
  ATTR_ON_CLOSE,   /* a function that is called when it closes */
  ATTR_GO,         /* the name of the go block whose result channel it is */
  ATTR_CANCEL,     /* what that go block was cancelled with: an error that is not reported */
  ATTR_CANCEL_2,   /* the same, of one that was cancelled again while its variables were being closed */
  ATTR_THREAD      /* a userdata with the Status of the thread for which that go block receives errors (lua/thread.c) */
} Attr;

/* Pushes the table of attributes. Makes it if there is none, and then returns true: finalizers may have run. May
   raise. */
bool attr_table(lua_State *L, int at);

/* Pushes the table of attributes, or nil, and returns whether there is one. Neither allocates nor raises. */
bool attr_push_table(lua_State *L, int at);

/* Pushes an attribute, or nil. Neither allocates nor raises. */
void attr_push(lua_State *L, int at, Attr key);

/* Sets an attribute to the value on top of L, which is popped. May raise. */
void attr_set(lua_State *L, int at, Attr key);

/* Pushes the channel's name for messages: "chan: jobs", or "chan: #12" without a name. May raise. */
void attr_push_name(lua_State *L, const Chan *ch, int at);

/* Pushes why a closed channel was closed; returns how many values it pushed, 1 or 0. */
int attr_push_reason(lua_State *L, const Chan *ch, int at);

/* The same for a taker: from here on the error counts as taken (unhandled.h). */
static inline int attr_take_reason(lua_State *L, Chan *ch, int at) {
  if (LIKELY(!(ch->flags & CHAN_REASON))) return 0;
  ch->flags |= CHAN_ERROR_TAKEN;
  return attr_push_reason(L, ch, at);
}

#endif
