/* engine.h: an HTTP server without a thread: its socket, its connections (conn.h), and the loop over both. Its user calls
   engine_turn again and again, in one thread. */
#ifndef RUNNEL_HTTP_ENGINE_H
#define RUNNEL_HTTP_ENGINE_H

#include "base/wakeup.h"
#include "http/server/conn.h"

/* Counts of connections by address. Addresses may share one by chance, which depends on `seed`. */
enum { ENGINE_COUNTS = 4096 };

typedef struct Engine {
  Hub hub;                        /* the connections */
  int fd;                         /* the socket that listens; -1: none */
  bool shares;                    /* other processes listen on its port, too */
  bool is_given;                  /* the program was given the socket: others may have it */
  bool is_watched;                /* the poller watches it */
  int64_t again;                  /* when it is watched again, if there was no descriptor */
  int64_t until;                  /* draining: when it stops accepting, and closes connections without a request */
  PollItem listener;              /* the socket */
  PollItem news;                  /* the wakeup of the user's thread */
  uint32_t nsurplus;              /* connections that are told that there are too many */
  uint64_t seed;                  /* makes the place of an address in `counts` random */
  uint32_t counts[ENGINE_COUNTS]; /* connections by address */
} Engine;

/* Opens an engine that is zeros, but for the fields of its hub up to `context`, and of itself up to `is_given`: they are
   set already. The engine owns the socket, also on failure; the context must stay. `wakeup` ends a wait. Returns
   false if there is no memory or descriptor. engine_close must be called either way. */
bool engine_open(Engine *engine, const Wakeup *wakeup);

/* Closes all connections and the socket. */
void engine_close(Engine *engine);

/* Waits until something has happened, for at most `ms`, without a limit if that is negative, and handles it. */
void engine_turn(Engine *engine, int ms);

/* Frees connections that were closed; for work between two turns. */
void engine_sweep(Engine *engine);

/* Accepts no more connections, and lets those that there are end with their requests. */
void engine_drain(Engine *engine);

/* Whether it drains, and no connection is left. */
bool engine_is_drained(const Engine *engine);

#endif
