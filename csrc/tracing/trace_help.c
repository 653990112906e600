/* trace_help.c: see trace_help.h. */
#include "tracing/trace_help.h"

#include "tracing/trace_context.h"
#include "tracing/trace_copy.h"
#include "tracing/trace_edges.h"
#include "tracing/trace_list.h"
#include "tracing/trace_record.h"
#include "tracing/trace_store.h"

int trace_help(lua_State *L) {
  Trace *t = sched_self(L)->tracer;
  switch ((TraceTask)lua_tointeger(L, 1)) {
  case TRACE_LABEL_GO:
    trace_list_label_go(L, t, (Go *)lua_touserdata(L, 2), 2);
    break;
  case TRACE_ADD_CHAN:
    if (t->holds[0]) trace_list_add(L, t, 2);
    break;
  case TRACE_GROW_EDGES:
    trace_edges_grow(L, t);
    break;
  case TRACE_SCAN:
    trace_list_scan(L, t);
    break;
  case TRACE_COPY_RING:
    trace_copy_make(L, t, trace_now(sched_self(L)));
    break;
  case TRACE_PASS_CONTEXT:
    trace_context_push(L, sched_self(L), 0);
    trace_context_set(L, sched_self(L), 2);
    break;
  }
  return 0;
}

void trace_call_help(lua_State *L, TraceTask task) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, TRACE_STACK)) {
    trace_fetch(L, TRACE_HELP);
    lua_pushinteger(L, task);
    lua_pushvalue(L, top);
    (void)lua_pcall(L, 2, 0, 0);
  }
  lua_settop(L, top - 1);
}
