/* trace_context.h: the context of go blocks: a Lua value that a go block passes on to the go blocks that it starts, for
   example the trace of a distributed system to which its work belongs (lua/runnel/internal/trace_context.lua). It exists
   only while the part TRACE_CONTEXTS is held (trace_switch.h). */
#ifndef RUNNEL_TRACE_CONTEXT_H
#define RUNNEL_TRACE_CONTEXT_H

#include "core/state.h"

/* Pushes the context of the go block whose result channel is at index `at`, or of the running code if `at` is 0; nil if
   it has none. */
void trace_context_push(lua_State *L, const Sched *S, int at);

/* Sets it to the value on top of L, which is popped. May raise. */
void trace_context_set(lua_State *L, const Sched *S, int at);

/* Makes the table of contexts; frees it. The first may raise. */
void trace_context_open(lua_State *L);
void trace_context_close(lua_State *L);

#endif
