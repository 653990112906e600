/* port.h: a bounded queue of messages from other threads to the scheduler's thread. Knows no Lua; pump.h moves the
   messages into a channel.

   Posters append messages to the inbox under the port's lock. The scheduler's thread takes the whole inbox at once and
   then works through it without the lock. A post signals the wakeup only if the scheduler last found the inbox empty.
   Otherwise the scheduler is still delivering messages, and checks the inbox again when it has delivered them.

   A message counts against the limit from its post until its delivery. */
#ifndef RUNNEL_PORT_H
#define RUNNEL_PORT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wakeup.h"

/* The longest string that is stored inside the message. */
enum { MESSAGE_SMALL = 24 };

typedef enum MessageKind {
  MESSAGE_NONE, /* empty */
  MESSAGE_BOOLEAN,
  MESSAGE_INTEGER,
  MESSAGE_NUMBER,
  MESSAGE_SMALL_BYTES, /* a string, inside the message */
  MESSAGE_BYTES,       /* a string, in memory that the message owns */
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
      char *start; /* from malloc; the message owns it */
      size_t size;
    } bytes;
    struct {
      int (*push)(lua_State *L, void *data); /* pushes the value and returns 1, or returns 0 */
      void (*drop)(void *data);              /* called instead when the message is dropped; or NULL */
      void *data;                            /* their argument */
    } call;
  } as;
} Message;

/* Frees what the message owns, or calls the `drop` of a MESSAGE_CALL. The message is then MESSAGE_NONE. */
void message_drop(Message *message);

typedef struct runnel_port Port; /* the C API's name for it */

typedef enum PostResult { POST_DONE, POST_FULL, POST_CLOSED, POST_NO_MEMORY } PostResult;

/* Makes a port for `limit` messages (1 or more), which signals the wakeup. It begins with two holds, a poster's and the
   scheduler's. NULL if there is no memory. */
Port *port_new(Wakeup *wakeup, size_t limit);

/* ---- for posters: any thread, but no signal handler ---- */

/* Adds a poster's hold, and removes one; when the last one is removed, the port closes. */
void port_hold(Port *port);
void port_release(Port *port);

/* Posts a message. With POST_DONE the port owns what the message owned; otherwise the caller still does. */
PostResult port_post(Port *port, const Message *message);

/* Waits until the full port has room for half its limit, so that the poster can go on in a burst; false if the port is
   closed. */
bool port_wait(Port *port);

/* Closes the port to further posts. What has been posted is still delivered. */
void port_close(Port *port);

/* Whether it is closed to further posts. */
bool port_is_closed(Port *port);

/* ---- for the scheduler's thread ---- */

/* The oldest message, or NULL if there is none. After NULL the next post, or closing the port, signals the wakeup, and
   *closed is whether the port is already closed, so that no message will come. */
Message *port_first(Port *port, bool *closed);

/* Removes the oldest message, which must be MESSAGE_NONE by now, and counts it as delivered. */
void port_delivered(Port *port);

/* Whether there has been a post, or the port has closed, since port_first returned NULL. */
bool port_has_news(Port *port);

/* Closes the port, drops the messages that have not been delivered, and removes the scheduler's hold. */
void port_shut(Port *port);

#endif
