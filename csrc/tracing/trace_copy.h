/* trace_copy.h: a copy of the ring from when a go block died: what has led to its error.

   Whether the program takes the error of a go block shows only later (unhandled.h), when the records may have been
   overwritten. So while there is a function for unhandled errors, the newest records are copied when a go block dies of
   an error. There is one copy, for the oldest error that may still be reported. */
#ifndef RUNNEL_TRACE_COPY_H
#define RUNNEL_TRACE_COPY_H

#include "tracing/trace_state.h"

/* The function on top of L, which is popped, is called as f(is_copied) when an unhandled error is about to be reported;
   `is_copied`: the copy is for this error. nil, or if there is no ring: no function is called, and the
   copy is freed. */
void trace_copy_hear(lua_State *L, Trace *t);

/* Copies the ring for the error whose record (unhandled.c) is on top of L, which is popped. `now`: see trace_now. May
   raise. */
void trace_copy_make(lua_State *L, Trace *t, int64_t now);

/* Pushes the record of the error that the copy is for, or nil. */
void trace_copy_push_error(lua_State *L);

/* The error whose record is at index `at` is about to be reported. */
void trace_copy_due(lua_State *L, Trace *t, int at);

/* An unhandled error is about to be reported: calls the function, if there is one. Does not raise. */
void trace_copy_report(lua_State *L, Trace *t);

/* Frees the copy and forgets the function. */
void trace_copy_close(lua_State *L, Trace *t);

#endif
