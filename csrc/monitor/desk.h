/* desk.h: the exchange between the scheduler's thread and the server's: snapshots and results in one direction,
   commands in the other. A mutex guards it; neither side waits for the other. */
#ifndef RUNNEL_MONITOR_DESK_H
#define RUNNEL_MONITOR_DESK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "tracing/snapshot.h"
#include "tracing/watch.h"

/* How many commands may wait: while Lua computes, the program takes none. */
enum { DESK_COMMANDS = 64 };

/* Results that are kept. */
enum { DESK_RESULTS = 64 };

/* A command of a page. The texts are the page's, unchecked, each shorter than its array. */
typedef struct Command {
  Link link;       /* in Desk.commands */
  int64_t number;  /* its result has the same */
  char what[16];   /* one of those in http.c */
  char id[24];     /* of the go block, channel, flow or stage */
  char type[16];   /* of the value to inject */
  char text[4096]; /* the value */
} Command;

/* The result of a command, as JSON. */
typedef struct Result {
  int64_t number; /* of the command; 0: none */
  char *json;     /* from malloc */
} Result;

typedef struct Desk {
  pthread_mutex_t mutex;
  Watch *watch;                 /* asks the scheduler */
  Thread thread;                /* the server's; news wakes it */
  Snapshot snapshots[3];        /* one is being filled, one waits, one is shown */
  Snapshot *filling;            /* the scheduler's thread */
  Snapshot *waiting;            /* complete, if `fresh` */
  Snapshot *shown;              /* the server's thread */
  bool fresh;                   /* `waiting` is newer than `shown` */
  List commands;                /* in the order of their numbers */
  uint32_t ncommands;           /* how many */
  int64_t number;               /* of the last command */
  Result results[DESK_RESULTS]; /* the newest: the nth is at n % DESK_RESULTS */
  uint64_t nresults;            /* results so far */
  bool has_news;                /* there are results since desk_has_news */
  int task;                     /* the scheduler's thread (task.h) */
  int64_t served;               /* when the scheduler last took its commands, in ns */
  int64_t asked;                /* when it was last asked to, in ns; the server's thread */
  atomic_bool wants;            /* a snapshot is wanted, else only the commands are to be taken */
  atomic_bool reminds;          /* the scheduler is to be asked again soon, even if no page is open */
} Desk;

/* Returns false, with errno set, if the thread's wakeup cannot be made. */
bool desk_init(Desk *desk, Watch *watch);
void desk_free(Desk *desk);

/* ---- the server's thread ---- */

/* Asks the scheduler to take its commands and, with `wants`, for a snapshot. */
void desk_ask(Desk *desk, bool wants);

/* How long the scheduler has been asked for something and has not come, in ns; 0: it need not come. */
int64_t desk_late(Desk *desk, int64_t now);

/* Whether there are results since the last call. */
bool desk_has_news(Desk *desk);

/* Takes the newest snapshot as the shown one. Returns false if there is no newer one. */
bool desk_fetch(Desk *desk);

/* Adds a command, which the desk then owns, and returns its number; 0 if there are too many already. */
int64_t desk_command(Desk *desk, Command *command);

/* ---- the scheduler's thread ---- */

/* The snapshot to fill, or NULL if none is wanted. */
Snapshot *desk_filling(Desk *desk);

/* The snapshot being filled is complete. */
void desk_publish(Desk *desk);

/* Takes the next command, or returns NULL. The caller frees it. */
Command *desk_take(Desk *desk);

/* The result of a command, as JSON, which is copied. */
void desk_result(Desk *desk, int64_t number, const char *json);

#endif
