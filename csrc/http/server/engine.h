/* engine.h: an HTTP server without a thread: its socket, its connections (conn.h), and the loop over both. Its user calls
   engine_turn again and again, in one thread. */
#ifndef RUNNEL_HTTP_ENGINE_H
#define RUNNEL_HTTP_ENGINE_H

#include "base/wakeup.h"
#include "http/server/conn.h"

/* Counts of connections by address. Two addresses may share a count by chance; `seed` makes it random which do. */
enum { ENGINE_COUNTS = 4096 };

typedef struct Engine {
  Hub hub;                        /* the connections */
  Listening own;                  /* what listens */
  bool shares;                    /* other processes listen on its port, too */
  bool is_given;                  /* the program was given the socket: other processes may have it too */
  bool is_watched;                /* the poller watches it */
  int64_t again;                  /* when it is watched again, after there was no descriptor */
  int64_t until;                  /* draining: when it stops accepting, and closes connections without a request */
  PollItem listener;              /* the socket */
  PollItem news;                  /* the wakeup of the user's thread */
  uint32_t nsurplus;              /* connections above the limit, which get status 503 */
  uint64_t seed;                  /* makes the index of an address in `counts` random */
  uint32_t counts[ENGINE_COUNTS]; /* connections by address */
} Engine;

/* Opens an engine that listens at a place. The caller has set the fields of its hub up to `context`, which must outlive
   it; all others are zero. `wakeup` ends a wait of engine_turn. Returns false on failure; `why` then has a message, or is
   as before if there is no memory or descriptor. engine_close must be called in both cases. */
bool engine_open(Engine *engine, const Place *place, Wakeup *wakeup, char *why, size_t size);

/* Closes all connections and the socket. */
void engine_close(Engine *engine);

/* Waits for events, for at most `ms` (negative: no limit), and handles them. */
void engine_turn(Engine *engine, int ms);

/* Frees closed connections. Needed after work between two turns that may close some. */
void engine_sweep(Engine *engine);

/* Stops accepting connections, and ends each open one after its request. */
void engine_drain(Engine *engine);

/* Whether it drains, and no connection is left. */
bool engine_is_drained(const Engine *engine);

#endif
