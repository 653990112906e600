/* trace_store.h: where the values of a trace are kept for the collector: in the user values of SCHED_TRACE. */
#ifndef RUNNEL_TRACE_STORE_H
#define RUNNEL_TRACE_STORE_H

#include "core/state.h"

enum {
  TRACE_HELP = 1,    /* the C function that does, protected, what may raise */
  TRACE_RING_AT,     /* userdata: the ring */
  TRACE_EDGES_AT,    /* userdata: the edges */
  TRACE_LABELS,      /* table: label -> name, name -> label */
  TRACE_CHANS,       /* weak table: entry of the list, from 1 -> channel */
  TRACE_ENTRIES,     /* userdata: the entries of the list */
  TRACE_TAPPED,      /* the tapped channel; and */
  TRACE_TAP,         /* its function */
  TRACE_COPY_AT,     /* userdata: the copy of the ring for an error (trace_copy.h); */
  TRACE_COPY_FOR,    /* the record of that error (unhandled.c); and */
  TRACE_ON_ERROR,    /* the function for unhandled errors */
  TRACE_CONTEXTS_AT, /* weak table: go block -> its context (trace_context.h) */
  TRACE_NUSER = TRACE_CONTEXTS_AT
};

/* Sets a user value to the value on top of L, which is popped. Does not allocate. */
static inline void trace_store(lua_State *L, int key) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_TRACE);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, key);
  lua_pop(L, 1);
}

/* Pushes a user value. */
static inline void trace_fetch(lua_State *L, int key) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_TRACE);
  lua_getiuservalue(L, -1, key);
  lua_replace(L, -2);
}

#endif
