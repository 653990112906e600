/* conn.h: a connection to NATS, on libnats, and its subscriptions.

   Each connection has a thread of its own (io.c), which reads and writes. libnats has threads as well. They call
   functions of this module, which post messages and events to ports (capi/runnel.h); the ports call functions in the Lua
   thread that make Lua values of them. So a Conn and a Sub are on the C heap and have a reference count: each thread
   that may still use one has a hold.

   When a Lua state is closed, the finalizer of the userdata closes its connections, and waits until no thread will call
   functions of this module any more. */
#ifndef RUNNEL_NATS_CONN_H
#define RUNNEL_NATS_CONN_H

#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/thread.h"
#include "kit/events.h"

#define CONN_TYPE "runnel.nats.connection"
#define SUB_TYPE "runnel.nats.subscription"

typedef struct Beats Beats;
typedef struct Delivery Delivery;

/* Messages that wait to be destroyed, at most. libnats' thread that frees them is woken once or twice for all of them. */
enum { SPENT_LIMIT = 512 };

/* The longest message of an error. */
enum { TEXT_SIZE = 512 };

/* A quiet port to a channel of events. Nothing is posted to it. While it is open, a take that waits on the channel
   keeps rn.run() going and is not a deadlock. */
typedef struct Attended {
  struct Attended *next; /* in Conn.attended */
  runnel_port *port;     /* the port */
} Attended;

/* Messages published while the connection is lost: see outbox.c. */
typedef struct Outbox {
  atomic_bool is_lost;  /* the Lua thread must not send; changes under the lock */
  pthread_mutex_t lock; /* guards the fields below */
  natsMsg **messages;   /* in order; from malloc */
  size_t count;         /* how many there are */
  size_t capacity;      /* the number that the memory has room for */
  size_t bytes;         /* their size */
  size_t limit;         /* most bytes */
} Outbox;

void outbox_open(Outbox *outbox);
void outbox_free(Outbox *outbox);

/* The connection is lost. In libnats' thread. */
void outbox_lost(Outbox *outbox);

/* There is a connection again: sends the kept messages. In libnats' thread. */
void outbox_send(Outbox *outbox, natsConnection *nc);

/* Keeps a message while the connection is lost: then *kept is set, and the outbox owns it. Otherwise the caller sends
   it, unless the status is an error. */
natsStatus outbox_keep(Outbox *outbox, natsMsg *msg, bool *kept);

/* How many bytes, about, are kept. */
size_t outbox_bytes(Outbox *outbox);

/* The thread of a connection, and what it and the Lua thread share: see io.c. */
typedef struct Io {
  Thread thread;             /* connects, reads and writes */
  pthread_t self;            /* its id; set by the thread before it connects */
  bool collects;             /* published messages may always wait; set before the thread starts */
  int64_t write_timeout;     /* ms that the network may accept no bytes; set before the thread starts */
  int64_t silence;           /* ms of silence after which the connection is lost; set before the thread starts */
  atomic_llong heard;        /* when the last bytes arrived, or it was made; in ms of the monotonic clock */
  size_t unsent;             /* bytes published since the last write, about; used in the Lua thread */
  _Atomic(pthread_t) lua;    /* the Lua thread, when it last read or wrote */
  atomic_bool lua_writes;    /* the Lua thread is reading or writing */
  bool blocks_signals;       /* it has blocked its signals for that; this and the next field: Lua thread */
  sigset_t signals;          /* the signals that were blocked before */
  runnel_task task;          /* writes when the Lua thread has nothing else to do */
  natsConnection *nc;        /* set by libnats, before `fd` */
  atomic_int fd;             /* the socket; or -1. Changes under fd_lock */
  pthread_mutex_t fd_lock;   /* libnats does not close the socket while it is held and `fd` is not -1 */
  pthread_mutex_t lock;      /* held while a thread reads or writes */
  atomic_bool ticks;         /* the thread checks every few ms whether there are bytes to write */
  atomic_bool lua_publishes; /* the Lua thread is publishing, and writes the bytes itself */
  atomic_bool wants_write;   /* libnats has bytes to write */
  atomic_bool must_write;    /* write them at once */
  atomic_bool is_full;       /* the network accepts nothing for now */
  runnel_reader *reader;     /* reads in the Lua thread: see thread.c. NULL: not on this system */
  atomic_bool is_new;        /* no bytes have arrived on this socket yet */
  atomic_bool has_read;      /* the Lua thread has read since the thread looked last */
} Io;

typedef struct Conn {
  Handle handle;               /* held also by the callbacks, by libnats' socket, and by each Sub */
  const runnel_functions *rn;  /* the core's functions */
  natsOptions *options;        /* for connecting */
  natsConnection *nc;          /* NULL until it is connected, and once it is closed; used in the Lua thread, and by its
                                  own thread until that has posted the result of connecting */
  Events events;               /* Event (events.c), in the order in which they happened */
  Attended *attended;          /* the program's channels of events */
  atomic_uint nevents;         /* how many are posted and not delivered */
  struct Event *result;        /* says how connecting has ended; made before, since Lua waits for it; NULL: posted */
  struct Event *end;           /* says that the connection has ended; the same */
  int64_t max_payload;         /* the longest message that the server accepts; set before the Lua thread uses `nc` */
  bool is_connected;           /* the Lua thread may use `nc` */
  Io io;                       /* the thread that connects, reads and writes */
  Outbox outbox;               /* messages that wait for a connection */
  List ended_subs;             /* closed ones, which wait to be destroyed */
  natsMsg *spent[SPENT_LIMIT]; /* messages that Lua has, to be destroyed together: see sub.c. Used in the Lua thread */
  size_t nspent;               /* how many there are */
  size_t spent_bytes;          /* of their payloads */
  List subs;                   /* open subscriptions; the Lua thread changes it, with `subs_lock` */
  Beats *beats;                /* see beat.c; or NULL. Used in the Lua thread only */

  pthread_mutex_t lock;   /* guards the fields below */
  pthread_cond_t changed; /* one of them has changed */
  bool has_ended;         /* no callback of the connection will be called again */
  bool is_attached;       /* but for those of its socket */
  unsigned delivering;    /* subscriptions whose callback may still be called */

  pthread_mutex_t subs_lock; /* guards `subs`, the next field, and Sub.sub of those in the lists */
  struct Sub *direct;        /* subscriptions whose messages the connection's thread takes */
} Conn;

typedef struct Sub {
  Handle handle;           /* held also by the thread that gets the messages, and by each message */
  Link link;               /* in Conn.subs while it is open */
  Conn *conn;              /* with a hold */
  natsSubscription *sub;   /* NULL once it is closed */
  natsSubscription *ended; /* its former `sub`, while it waits to be destroyed */
  uint64_t ended_at;       /* messages that the connection had received some time after that; or 0 */
  runnel_port *port;       /* the port for the messages; the userdata has a reference, and the thread */
  atomic_size_t delivered; /* messages that were posted to the port, or wait for room in it */
  int64_t dropped;         /* messages that libnats has dropped, at the last check; used in the Lua thread only */
  atomic_uint refused;     /* messages that were lost because there was no memory */
  bool is_direct;          /* it is, or was, in Conn.direct */
  bool is_draining;        /* it has begun to drain; only if it is direct. Conn.subs_lock guards this and the rest */
  struct Sub *next;        /* in Conn.direct */
  Delivery *full;          /* messages for which the port had no room; or NULL */
} Sub;

/* The user value of a subscription: the metatable of its messages, or the function that receives them. */
enum { SUB_TAKER = 1 };

/* Makes a delivery of an arrived message, which it owns; NULL stands for the server's answer that the subject has no
   subscription. It is posted together with `before`, the last delivery of a list, unless that is NULL. Returns NULL if
   there is no memory: then the message is lost, and counted. Any thread, as the next two. */
Delivery *delivery_new(Sub *sub, natsMsg *msg, Delivery *before);

/* Posts the first of a list of messages with the rest; false if there is no room. If the port is closed, they are
   dropped. */
bool delivery_post(Delivery *first);

/* Drops the messages instead of posting them. */
void delivery_drop(Delivery *first);

/* Makes and frees the state of a connection's thread. io_open returns false if there is no memory or descriptor. */
bool io_open(Io *io);
void io_free(Io *io);

/* Runs the thread of a Conn, `data`, which connects, and then reads and writes: see thread.c. */
void *thread_run(void *data);

/* The ready of Io.reader of a Conn, `data`: reads in place of its thread, in the Lua thread. */
void thread_read(void *data);

/* Writes libnats' bytes, as far as the network accepts them. With Io.lock. */
void io_write_some(Io *io);

/* Ends a connection that accepts no bytes, or sends none: the thread's next read fails, and libnats connects anew. Any
   thread. */
void io_give_up(Io *io);

/* Makes libnats leave the socket to the connection's thread. */
void io_set_options(Conn *conn);

/* Writes waiting bytes, and waits until they have left this machine, for at most write_timeout. Returns about how many
   bytes are left; 0 if all were sent. In the Lua thread, as the rest. */
size_t io_finish(Conn *conn);

/* The run of Io.task. */
void io_write_published(void *data);

/* Reads, in the Lua thread; false if the connection's thread does. */
bool io_read(Io *io);

/* Makes the Lua thread read, or not; returns whether it does. In the connection's thread, or when that has ended. */
bool io_let_lua_read(Conn *conn, bool lets);

/* Whether the socket has no TLS, by the first bytes that have arrived on it. In the connection's thread. */
bool io_is_plain(Io *io);

/* Must be called before and after a publish in the Lua thread. io_published writes the bytes, or arranges that they are
   written soon; an error if the network has not accepted enough for too long. */
void io_publish(Conn *conn);
natsStatus io_published(lua_State *L, Conn *conn, size_t size);

/* The same for bytes to be written at once: for a subscription, which must not come later than messages that other
   connections send after it. */
void io_write(Conn *conn);

/* The user value of a connection: the handler of its events. */
enum { CONN_HANDLER = 1 };

/* The `deliver` of Conn.events: gives the handler one event. */
int conn_deliver(lua_State *L);

/* Makes libnats call the functions that post events. */
void conn_set_callbacks(Conn *conn);

/* Opens the queue of events to the channel at an index; returns a code of runnel. Closes it, and the ports of attended
   channels. Frees it. */
int conn_open_events(lua_State *L, Conn *conn, int at);
void conn_close_events(Conn *conn);
void conn_free_events(Conn *conn);

/* Posts the result of connecting, in the connection's thread. */
void conn_has_connected(Conn *conn, natsConnection *nc, natsStatus s);

/* libnats' text for an error without the place in its sources: "(conn.c:2088): No server available". */
const char *conn_plain_text(const char *text, natsStatus status);

/* The number of ms at an index, at least 1; and the integer there: at most what fits. */
int64_t conn_ms(lua_State *L, int at);
int conn_int(lua_State *L, int at);

/* Pushes nil and a message, and returns 2, for a function that has failed. conn_refuse also pushes true, and returns 3:
   the arguments are wrong. */
int conn_fail(lua_State *L, natsStatus status);
int conn_refuse(lua_State *L, const char *format, ...);

/* Whether a subject is valid; with `wildcards`, it may contain * and >. If not, pushes the reason. */
bool subject_check(lua_State *L, const char *subject, size_t size, bool wildcards);

/* Adds the options of the table at index `at` to `options`. *name becomes the name of a refused one. */
natsStatus options_read(lua_State *L, int at, natsOptions *options, const char **name);

/* Pushes a message's table. */
void message_push_table(lua_State *L, natsMsg *msg);

/* Pushes a table of a message's headers; or nothing, and returns false, if it has none. */
bool message_push_headers(lua_State *L, natsMsg *msg);

/* connect(options, channel, handler) -> conn | nil, message [, true]: see conn.c. */
int conn_connect(lua_State *L);

/* Methods of a connection. */
int conn_attend(lua_State *L);
int conn_unattend(lua_State *L);
int conn_publish(lua_State *L);
int conn_publish_with(lua_State *L);
int conn_subscribe(lua_State *L);
int conn_alive(lua_State *L);
int conn_beat(lua_State *L);
int conn_limit(lua_State *L);
int conn_unbeat(lua_State *L);

/* The open subscription of a natsSubscription, or NULL. */
Sub *sub_find(const Conn *conn, const void *subscription);

/* How many messages the subscription has lost. */
int64_t sub_dropped(Sub *sub);

/* Takes the messages of direct subscriptions, in the thread that has read them. Returns whether the connection's thread
   must call it again soon. */
bool sub_take_all(Conn *conn);

/* Destroys the messages that Lua has taken over. */
void sub_destroy_spent(Conn *conn);

/* Destroys the subscriptions that have ended: all of them, when the connection has closed. */
void sub_destroy_ended(Conn *conn);

/* Closes a connection's subscriptions. */
void sub_close_all(Conn *conn);

/* Unsubscribes all at the server, in the thread that ends the process. */
void sub_unsubscribe_all(Conn *conn);

/* Ends the beating thread, and frees its memory. */
void beats_free(Beats *beats);

/* Make the metatables of connections and of subscriptions. */
void conn_open(lua_State *L);
void sub_open(lua_State *L);

/* runnel.nats.core: see module.c. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_nats_core(lua_State *L);

#endif
