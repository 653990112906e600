/* events.h: notifies the Lua thread of events of a C module's objects (handle.h).

   A thread adds events to an object by events_add, and calls events_post before it waits. Then `deliver`, a function of
   the module, runs in the Lua thread. It takes the objects with events one by one, by events_take. So any number of
   events before Lua runs is one message of a port, and Lua is woken once. */
#ifndef RUNNEL_EVENTS_H
#define RUNNEL_EVENTS_H

#include <pthread.h>

#include "base/thread.h"
#include "capi/runnel.h"
#include "kit/handle.h"

typedef struct Events {
  const runnel_functions *rn; /* the core's functions */
  Handle *owner;              /* the object that has this queue; held until `deliver` has been called */
  lua_CFunction deliver;      /* (owner, a light userdata) -> a value for the channel of the port, or nothing */
  const Thread *thread;       /* the module's own, woken if it must call events_post again */
  pthread_mutex_t lock;       /* guards the rest */
  runnel_port *port;          /* NULL: events are dropped */
  List objects;               /* by Handle.news: objects with events, in the order of their first ones; held */
  bool is_posted;             /* a call of `deliver` is pending */
} Events;

/* Begins a queue without a port. */
void events_init(Events *events, const runnel_functions *rn, void *owner, lua_CFunction deliver, const Thread *thread);

/* Ends a queue that is closed, or has never been opened. For the owner's `free`. */
void events_free(Events *events);

/* Opens the port of the queue to the channel at an index, unless it is open; `end` as for runnel_port_open. Returns a
   code of runnel. Lua thread. */
int events_open(lua_State *L, Events *events, int at, int end);

/* Closes the port, and drops present and later events. Does nothing if it is closed. Lua thread. */
void events_close(Events *events);

/* Adds bits to the events of an object, which the queue holds until they are taken or dropped. Any thread. */
void events_add(Events *events, void *object, unsigned bits);

/* Makes Lua call `deliver` if there are events. False if there is no memory for that: then call this again soon. Any
   thread that holds the owner. */
bool events_post(Events *events);

/* The same in another thread than `thread`: if there is no memory, wakes that one, which calls events_post again. */
void events_tell(Events *events);

/* Takes the first object with events, with its hold, which passes to the caller, and its events; NULL if there is none.
   Lua thread. */
void *events_take(Events *events, unsigned *bits);

/* Opens a port to the channel at an index: runnel_port_open for a channel on the stack. Lua thread. */
int events_open_port(lua_State *L, const runnel_functions *rn, int at, size_t limit, int end, runnel_port **port);

/* Raises why a port could not be opened, by the code. Lua thread. */
int events_refuse(lua_State *L, const runnel_functions *rn, int code);

#endif
