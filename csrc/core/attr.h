/* attr.h: the attributes of a channel, in a table that is made for the first one: few channels have any. The table also
   holds the go blocks that only this channel keeps alive (root.h): their userdata as keys, their coroutines as values.

   `at` is the absolute index of the channel's userdata in L. */
#ifndef RUNNEL_ATTR_H
#define RUNNEL_ATTR_H

#include "core/state.h"

/* Keys of the table. */
typedef enum Attr {
  ATTR_REASON = 1, /* why it was closed. The first key, so that Lua keeps it in the array of the table */
  ATTR_NAME,       /* the name given to it */
  ATTR_DONE,       /* a channel that closes when it does */
  ATTR_ON_CLOSE,   /* a function that is called when it closes */
  ATTR_GO,         /* on a result channel: the name of its go block */
  ATTR_CANCEL,     /* the error with which that go block was cancelled, which is not reported */
  ATTR_CANCEL_2,   /* the error of another cancel, while the go block's variables were being closed */
  ATTR_DEADLOCK,   /* the last deadlock of which a simulation has told that go block, its function, by a cancel */
  ATTR_ALSO,       /* on a go block that dies: the last channel that its variables have closed with an error; on that
                      channel: the one before it */
  ATTR_THREAD /* a userdata: the Status of the thread for which that go block receives errors (lua_thread.c); on the
                      result of a thread, that go block */
} Attr;

/* Pushes the table of attributes. If there is none, makes it and returns true: finalizers may have run. May raise. */
bool attr_table(lua_State *L, int at);

/* Pushes the table of attributes, or nil, and returns whether there is one. Neither allocates nor raises. */
bool attr_push_table(lua_State *L, int at);

/* Pushes an attribute, or nil. Neither allocates nor raises. */
void attr_push(lua_State *L, int at, Attr key);

/* Sets an attribute to the value on top of L, which is popped. May raise. */
void attr_set(lua_State *L, int at, Attr key);

/* Pushes the text at index `i`, a name, for a message or a terminal: in one line, with a ? in place of each control
   character. May raise, but not if there is none. */
void attr_push_shown(lua_State *L, int i);

/* Pushes the channel's name for messages: "chan: jobs", or "chan: #12" without a name. May raise. */
void attr_push_name(lua_State *L, const Chan *ch, int at);

/* Pushes the error with which the channel was closed, if there is one. Returns the number of pushed values, 1 or 0. */
int attr_push_reason(lua_State *L, const Chan *ch, int at);

/* Does the same for a take, and marks the error as taken (unhandled.h). */
static inline int attr_take_reason(lua_State *L, Chan *ch, int at) {
  if (LIKELY(!(ch->flags & CHAN_REASON))) return 0;
  ch->flags |= CHAN_ERROR_TAKEN;
  return attr_push_reason(L, ch, at);
}

#endif
