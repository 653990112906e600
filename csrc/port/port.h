/* port.h: a bounded queue of messages from other threads to the scheduler's. Knows no Lua; what carries the messages
   on into a channel is carry.h.

   Posters put messages into the inbox under the port's lock. The scheduler's thread takes the whole inbox at once
   and then goes through it without the lock. The bell rings only when the scheduler has found the inbox empty:
   whoever posts while it is still at work need not tell it.

   A message counts against the limit from its posting until its delivery. */
#ifndef RUNNEL_PORT_H
#define RUNNEL_PORT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port/bell.h"

/* The longest string that a message has in itself. */
enum { MESSAGE_SMALL = 24 };

typedef enum MessageKind {
  MESSAGE_NONE, /* nothing, or nothing any more */
  MESSAGE_BOOLEAN,
  MESSAGE_INTEGER,
  MESSAGE_NUMBER,
  MESSAGE_SMALL_BYTES, /* a string, here */
  MESSAGE_BYTES,       /* a string, in memory of its own */
  MESSAGE_CALL         /* a function that makes the value */
} MessageKind;

typedef struct Message {
  uint8_t kind;  /* a MessageKind */
  uint8_t small; /* length of as.small */
  union {
    bool boolean;
    lua_Integer integer;
    lua_Number number;
    char small[MESSAGE_SMALL];
    struct {
      char *start; /* from malloc, the message's own */
      size_t size;
    } bytes;
    struct {
      int (*push)(lua_State *L, void *data); /* pushes the value and returns 1, or returns 0 */
      void (*drop)(void *data);              /* called instead when the message is dropped; or NULL */
      void *data;                            /* what they get */
    } call;
  } as;
} Message;

/* Frees what the message has, and tells the poster of a MESSAGE_CALL that it is dropped. It is MESSAGE_NONE then. */
void message_drop(Message *message);

typedef struct runnel_port Port; /* it is what the C API calls so */

typedef enum PostResult { POST_DONE, POST_FULL, POST_CLOSED, POST_NO_MEMORY } PostResult;

/* A port for `limit` messages (1 or more), with one hold of each kind on it, or NULL for want of memory. */
Port *port_new(Bell *bell, size_t limit);

/* ---- for posters: any thread, but no signal handler ---- */

/* The hold of a poster; when the last one lets go, the port closes. */
void port_hold(Port *port);
void port_release(Port *port);

/* Posts; takes the message over with POST_DONE only. */
PostResult port_post(Port *port, const Message *message);

/* Waits until there is room for half the limit, so that what follows can be a burst; false when it closes. */
bool port_wait(Port *port);

/* Lets nobody post any more. What has been posted is delivered. */
void port_close(Port *port);

bool port_is_closed(Port *port);

/* ---- for the scheduler's thread ---- */

/* The oldest message, or NULL. With NULL the next one, or the port's closing, will ring the bell; `closed` then says
   whether there will be any. */
Message *port_first(Port *port, bool *closed);

/* Counts the oldest message as delivered; it must be MESSAGE_NONE by now. */
void port_delivered(Port *port);

/* Whether port_first has news since it gave NULL. */
bool port_has_news(Port *port);

/* Closes the port, drops what has not been delivered, and lets go of the scheduler's hold. */
void port_shut(Port *port);

#endif
