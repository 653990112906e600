/* trace_list.h: the list of channels of a trace, and the labels. All of these but the closing one may raise. */
#ifndef RUNNEL_TRACE_LIST_H
#define RUNNEL_TRACE_LIST_H

#include "tracing/trace_state.h"

/* Pushes the name of a label; "?" for TRACE_UNKNOWN. */
void trace_push_label(lua_State *L, Sched *S, uint16_t label);

/* The channel at index `at` has got a name. Finds its label again. May raise. */
void trace_named(lua_State *L, Chan *ch, int at);

/* The go block has got the name on top of L, which is popped. May raise. */
void trace_renamed(lua_State *L, Go *go);

/* Pushes the channel of list entry i, from 0, and returns it; or pushes nothing and returns NULL if it has been
   collected or is hidden. */
Chan *trace_push_chan(lua_State *L, Sched *S, uint32_t i);

/* Finds the label of a go block whose userdata is at index `at`, unless it is hidden. */
void trace_list_label_go(lua_State *L, Trace *t, Go *go, int at);

/* Adds the channel at index `at`, unless it is in the list or is of a kind that is not: results of go blocks, timeouts,
   done() channels. */
void trace_list_add(lua_State *L, Trace *t, int at);

/* Adds the channels on which an operation waits, and finds the labels of all go blocks. */
void trace_list_scan(lua_State *L, Trace *t);

/* A part of that: for the go blocks after the i-th, up to number `last`, of the list of root_push_list at index `list`.
   Returns `last`. */
uint32_t trace_list_scan_part(lua_State *L, Trace *t, int list, uint32_t i, uint32_t last);

/* Makes the list. */
void trace_list_open(lua_State *L);

/* Frees it. */
void trace_list_close(lua_State *L, Trace *t);

#endif
