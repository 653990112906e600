/* trace_help.h: what may raise, for places that must not: it is called protected. */
#ifndef RUNNEL_TRACE_HELP_H
#define RUNNEL_TRACE_HELP_H

#include "tracing/trace_state.h"

/* Each with its argument. */
typedef enum TraceTask {
  TRACE_LABEL_GO,    /* finds the label of a go block: its userdata */
  TRACE_ADD_CHAN,    /* adds a channel to the list: its userdata */
  TRACE_GROW_EDGES,  /* makes room for edges: nil */
  TRACE_SCAN,        /* adds the channels on which an operation waits: nil */
  TRACE_COPY_RING,   /* copies the ring for an error (trace_copy.h): its record */
  TRACE_PASS_CONTEXT /* gives a new go block the context of the running code: its userdata */
} TraceTask;

/* Slots of a stack that a task needs at most. */
enum { TRACE_STACK = 8 };

/* Does a task for the value on top of L, which is popped. If memory runs out, nothing happens, except that a finalizer
   may have run. */
void trace_call_help(lua_State *L, TraceTask task);

/* The C function that does so: (task, value). Its upvalue is the scheduler. */
int trace_help(lua_State *L);

#endif
