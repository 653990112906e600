/* context_pass.c: see context_pass.h. */
#include "tracing/context_pass.h"

#include "tracing/trace_context.h"
#include "tracing/trace_help.h"

void context_pass(lua_State *L, const Sched *S, int at) {
  if (!lua_checkstack(L, TRACE_STACK)) return;
  trace_context_push(L, S, 0);
  bool has_one = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (!has_one) return;
  lua_pushvalue(L, at);
  trace_call_help(L, TRACE_PASS_CONTEXT);
}

/* ---- the observer: only new go blocks matter ---- */

static void on_spawn(lua_State *L, Sched *S, Go *go, int at) {
  (void)go;
  context_pass(L, S, at);
}

const Observer context_pass_observer = {.spawn = on_spawn};
