/* poller.h: waits until descriptors are ready: by epoll, level-triggered; by poll where there is no epoll, or if
   RUNNEL_NO_EPOLL is defined. For one thread. */
#ifndef RUNNEL_HTTP_POLLER_H
#define RUNNEL_HTTP_POLLER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__linux__) && !defined(RUNNEL_NO_EPOLL)
#define POLLER_IS_EPOLL 1
#include <sys/epoll.h>
#else
#define POLLER_IS_EPOLL 0
#include <poll.h>
#endif

/* What a descriptor is ready for. */
enum {
  POLLER_IN = 1,   /* reading */
  POLLER_OUT = 2,  /* writing */
  POLLER_HALF = 4, /* the other end has closed its sending side */
  POLLER_SHUT = 8, /* nothing more can come or go, but bytes that have come may be unread; always waited for */
  POLLER_GONE = 16 /* the connection is broken; always waited for */
};

/* A watched descriptor; a field of the structure that owns it. */
typedef struct PollItem {
  int fd;          /* the descriptor; -1: it is not watched any more */
  unsigned wanted; /* bits that are waited for */
  size_t at;       /* poll: its index in the arrays */
} PollItem;

typedef struct Poller {
#if POLLER_IS_EPOLL
  int fd;                       /* of epoll */
  struct epoll_event ready[64]; /* the results of the last wait */
#else
  struct pollfd *fds; /* of the items, from malloc */
  PollItem **items;   /* NULL: the item was removed during this turn; from malloc */
  size_t n;           /* places in use */
  size_t room;        /* places in `fds` */
  size_t more_room;   /* places in `items` */
#endif
} Poller;

/* Opens a poller whose fields are all zero; false, with errno, on failure. poller_close may be called once in both
   cases. */
bool poller_open(Poller *poller);
void poller_close(Poller *poller);

/* Begins to watch a descriptor; false if there is no memory. */
bool poller_add(Poller *poller, PollItem *item, int fd, unsigned wanted);

/* Changes what an item waits for; does nothing if that is the same, or the item is not watched any more. */
void poller_want(Poller *poller, PollItem *item, unsigned wanted);

/* Stops watching, unless it has stopped. Call it before the descriptor is closed. */
void poller_remove(Poller *poller, PollItem *item);

/* Waits for at most `ms` (negative: no limit). Returns the number of results, for poller_ready. */
int poller_wait(Poller *poller, int ms);

/* The i-th result of the last wait, from 0: an item, and what it is ready for; or NULL. */
PollItem *poller_ready(Poller *poller, int i, unsigned *bits);

#endif
