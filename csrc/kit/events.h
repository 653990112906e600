/* events.h: how the threads of a C module tell the Lua thread what has happened to its objects (handle.h).

   A thread adds events to an object by events_add, and calls events_post before it waits. Then `deliver`, a function of
   the module, is called in the Lua thread. It takes the objects that have events one by one, by events_take. So however
   many events there are before Lua runs, they are one message of a port, and Lua is woken once. */
#ifndef RUNNEL_EVENTS_H
#define RUNNEL_EVENTS_H

#include <pthread.h>

#include "base/thread.h"
#include "capi/runnel.h"
#include "kit/handle.h"

typedef struct Events {
  const runnel_functions *rn; /* the core's functions */
  Handle *owner;              /* the object that has this queue; held as long as `deliver` is going to be called */
  lua_CFunction deliver;      /* (owner, a light userdata) -> what is put on the channel of the port, or nothing */
  const Thread *thread;       /* is woken if it has to call events_post again; or NULL */
  pthread_mutex_t lock;       /* guards the rest */
  runnel_port *port;          /* NULL: events are dropped */
  List objects;               /* of Handle.news: those that have events, in the order of their first ones; held */
  bool is_posted;             /* `deliver` is going to be called */
} Events;

/* Begins a queue without a port. `thread` may be NULL. */
void events_init(Events *events, const runnel_functions *rn, void *owner, lua_CFunction deliver, const Thread *thread);

/* Ends a queue that is closed, or has never been open. In the owner's `free`. */
void events_free(Events *events);

/* Opens the port of the queue to the channel at an index, unless it is open; `end` as for runnel_port_open. Returns a
   code of runnel. Lua thread. */
int events_open(lua_State *L, Events *events, int at, int end);

/* Closes the port, and drops all events and those that come later. Does nothing if it is closed. Lua thread. */
void events_close(Events *events);

/* Adds bits to the events of an object, which the queue holds until they are taken or dropped. Any thread. */
void events_add(Events *events, void *object, unsigned bits);

/* Has `deliver` called if there are events. False if there is no memory for that: then it must be called again soon. Any
   thread that holds the owner. */
bool events_post(Events *events);

/* Takes the first object that has events, with its hold, which the caller then has, and its events; NULL if there is
   none. Lua thread. */
void *events_take(Events *events, unsigned *bits);

/* Opens a port to the channel at an index: runnel_port_open for a channel on the stack. Lua thread. */
int events_open_port(lua_State *L, const runnel_functions *rn, int at, size_t limit, int end, runnel_port **port);

#endif
