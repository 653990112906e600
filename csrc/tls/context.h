/* context.h: a context: the setup for new sessions, which reload replaces. */
#ifndef RUNNEL_TLS_CONTEXT_H
#define RUNNEL_TLS_CONTEXT_H

#include <pthread.h>

#include "kit/handle.h"
#include "tls/setup.h"
#include "tls/tls.h"

#define CONTEXT_TYPE "runnel.tls.context"

struct TlsContext {
  Handle handle;
  bool is_server;       /* set when it is made */
  pthread_mutex_t lock; /* guards `setup` */
  Setup *setup;         /* for new sessions */
  Setup *next;          /* the setup that is being made; used by the Lua thread */
  Why why;              /* why making it has failed */
};

/* The setup for a new session, with a hold for the caller. Any thread. */
Setup *context_setup(TlsContext *context);

/* Makes the metatable. */
void context_open(lua_State *L);

/* context(is_server, options) -> context, or nil and an error. lua/runnel/tls.lua has checked the options. */
int context_new(lua_State *L);

/* kind(value) -> "server" or "client", or nil if the value is not a context */
int context_kind(lua_State *L);

#endif
