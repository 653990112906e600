/* trace_context.c: see trace_context.h. */
#include "tracing/trace_context.h"

#include "core/setup.h"
#include "lifetimes/root.h"
#include "tracing/trace_store.h"

/* Pushes the key of the table of contexts: a go block, or 0 for the main program. */
static void push_key(lua_State *L, const Sched *S, int at) {
  if (at) lua_pushvalue(L, at);
  else if (S->current) root_push(L, S->current);
  else lua_pushinteger(L, 0);
}

void trace_context_push(lua_State *L, const Sched *S, int at) {
  int top = lua_gettop(L);
  trace_fetch(L, TRACE_CONTEXTS_AT);
  if (lua_istable(L, -1)) {
    push_key(L, S, at);
    lua_rawget(L, -2);
  } else {
    lua_pushnil(L);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

void trace_context_set(lua_State *L, const Sched *S, int at) {
  int value = lua_gettop(L);
  trace_fetch(L, TRACE_CONTEXTS_AT);
  if (lua_istable(L, -1)) {
    push_key(L, S, at);
    lua_pushvalue(L, value);
    lua_rawset(L, -3);
  }
  lua_settop(L, value - 1);
}

void trace_context_open(lua_State *L) {
  setup_push_weak(L, "k");
  trace_store(L, TRACE_CONTEXTS_AT);
}

void trace_context_close(lua_State *L) {
  lua_pushnil(L);
  trace_store(L, TRACE_CONTEXTS_AT);
}
