/* conn.h: a connection to NATS, on libnats, and its subscriptions.

   libnats has threads of its own. They call functions of this module, which post messages and events to ports
   (capi/runnel.h); the ports call functions in the Lua thread that make Lua values of them. So a Conn and a Sub are on
   the C heap and have a reference count: each thread that may still use one has a hold.

   When a Lua state is closed, the finalizer of the userdata closes its connections, and waits until no thread will call
   functions of this module any more. */
#ifndef RUNNEL_NATS_CONN_H
#define RUNNEL_NATS_CONN_H

#include <lauxlib.h>
#include <lua.h>
#include <nats/nats.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "capi/runnel.h"

typedef struct Beats Beats;

/* Messages that wait to be destroyed, at most. */
enum { SPENT_LIMIT = 64 };

/* How long a message of an error is, at most. */
enum { TEXT_SIZE = 512 };

/* A quiet port to a channel of events. Nothing is posted to it. While it is open, a take that waits on the channel
   keeps rn.run() going and is not a deadlock. */
typedef struct Attended {
  struct Attended *next; /* in Conn.attended */
  runnel_port *port;     /* the port */
} Attended;

/* What was published while the connection is lost: see outbox.c. */
typedef struct Outbox {
  atomic_bool is_lost;  /* the Lua thread must not send; changes under the lock */
  pthread_mutex_t lock; /* guards the fields below */
  natsMsg **messages;   /* in order; from malloc */
  size_t count;         /* how many there are */
  size_t capacity;      /* how many there is memory for */
  size_t bytes;         /* that they take */
  size_t limit;         /* most bytes */
} Outbox;

void outbox_open(Outbox *outbox, size_t limit);
void outbox_free(Outbox *outbox);

/* The connection is lost. In libnats' thread. */
void outbox_lost(Outbox *outbox);

/* There is a connection again: sends what has been kept. In libnats' thread. */
void outbox_send(Outbox *outbox, natsConnection *nc);

/* Keeps a message while the connection is lost: then *kept, and the outbox owns it. Else it is to be sent, unless the
   status is an error. */
natsStatus outbox_keep(Outbox *outbox, natsMsg *msg, bool *kept);

typedef struct Conn {
  atomic_uint holds;           /* the userdata's, the callbacks', each Sub's */
  const runnel_functions *rn;  /* the core's functions */
  natsOptions *options;        /* for connecting */
  natsConnection *nc;          /* NULL until it is connected, and once it is closed; used in the Lua thread, and by the
                                 thread that connects until that is joined */
  runnel_port *events;         /* where events go */
  Attended *attended;          /* those of the program's channels of events */
  atomic_uint nevents;         /* how many have been posted and not delivered */
  int64_t max_payload;         /* the longest message that the server accepts; set before the Lua thread uses `nc` */
  pthread_t connector;         /* the thread that connects */
  bool is_connecting;          /* it has not been joined */
  Outbox outbox;               /* messages that wait for a connection */
  List ended_subs;             /* closed ones, which wait to be destroyed */
  natsMsg *spent[SPENT_LIMIT]; /* messages that Lua has, to be destroyed together: see sub.c. Used in the Lua thread */
  size_t nspent;               /* how many there are */
  size_t spent_bytes;          /* of their payloads */
  List subs;                   /* open subscriptions; used in the Lua thread only */
  Beats *beats;                /* beat.h; or NULL. Used in the Lua thread only */

  pthread_mutex_t lock;   /* guards the fields below */
  pthread_cond_t changed; /* one of them has changed */
  bool has_ended;         /* no callback of the connection will be called again */
  unsigned delivering;    /* subscriptions whose callback may still be called */
} Conn;

typedef struct Sub {
  atomic_uint holds;       /* the userdata's, that of libnats' thread, each message's */
  Link link;               /* in Conn.subs while it is open */
  Conn *conn;              /* with a hold */
  natsSubscription *sub;   /* NULL once it is closed */
  natsSubscription *ended; /* what it was, while it waits to be destroyed */
  uint64_t ended_at;       /* messages that the connection had received some time after that; or 0 */
  runnel_port *port;       /* where the messages go; the userdata has a reference, and the thread */
  atomic_size_t delivered; /* messages that were posted to the port, or wait for room in it */
  int64_t dropped;         /* messages that libnats has dropped, as of the last look; used in the Lua thread only */
  atomic_uint refused;     /* messages that were lost because there was no memory */
} Sub;

/* Removes a hold; the last one frees. */
void conn_release(Conn *conn);
void sub_release(Sub *sub);

/* Blocks all signals in this thread until conn_unblock, so that threads started meanwhile do not get them. */
void conn_block(sigset_t *old);
void conn_unblock(const sigset_t *old);

/* The connection at index 1, which may be closed. Raises if its finalizer has been called. */
Conn *conn_check(lua_State *L);

/* The number of ms at an index, at least 1; and the integer there: at most what fits. */
int64_t conn_ms(lua_State *L, int at);
int conn_int(lua_State *L, int at);

/* Pushes nil and a message, and returns 2, for a function that has failed. conn_refuse also pushes true, and returns 3:
   the arguments are wrong. */
int conn_fail(lua_State *L, natsStatus status);
int conn_refuse(lua_State *L, const char *format, ...);

/* Whether a subject is valid; with `wildcards`, also * and > may be in it. Otherwise pushes why not. */
bool subject_check(lua_State *L, const char *subject, size_t size, bool wildcards);

/* Adds the options of the table at index `at` to `options`. If one is refused, *name is which. */
natsStatus options_read(lua_State *L, int at, natsOptions *options, const char **name);

/* Pushes the table that stands for a message. */
void message_push_table(lua_State *L, natsMsg *msg);

/* connect(options, channel, handler) -> conn | nil, message [, true]: see conn.c. */
int conn_connect(lua_State *L);

/* Methods of a connection. */
int conn_publish(lua_State *L);
int conn_publish_with(lua_State *L);
int conn_subscribe(lua_State *L);
int conn_beat(lua_State *L);
int conn_unbeat(lua_State *L);

/* The open subscription of a natsSubscription, or NULL. */
Sub *sub_find(const Conn *conn, const void *subscription);

/* How many messages the subscription has lost. */
int64_t sub_dropped(Sub *sub);

/* Destroys the messages that Lua has taken over. */
void sub_destroy_spent(Conn *conn);

/* Destroys the subscriptions that have ended: all of them, when the connection has closed. */
void sub_destroy_ended(Conn *conn);

/* Closes a connection's subscriptions. */
void sub_close_all(Conn *conn);

/* on_term(channel) -> watch | nil, and off_term(watch): see signal.c. */
int signal_on_term(lua_State *L);
int signal_off_term(lua_State *L);

/* Ends the thread that beats, and frees its memory. */
void beats_free(Beats *beats);

/* Make the metatables of connections and of subscriptions. conn_open leaves the table of a connection's methods on the
   stack. */
void conn_open(lua_State *L);
void sub_open(lua_State *L);

/* Makes the metatable of what signal_on_term returns. */
void signal_open(lua_State *L);

/* runnel.nats.core: see module.c. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_nats_core(lua_State *L);

#endif
