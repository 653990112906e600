/* context_pass.h: passes the context of a go block on to those that it starts. */
#ifndef RUNNEL_TRACE_CONTEXT_PASS_H
#define RUNNEL_TRACE_CONTEXT_PASS_H

#include "core/observe.h"

/* On SEAT_TRACE while contexts are held, and nothing else that needs an observer. */
extern const Observer context_pass_observer;

/* The running code has started the go block at index `at`, which gets its context. If memory runs out, it gets none. */
void context_pass(lua_State *L, const Sched *S, int at);

#endif
