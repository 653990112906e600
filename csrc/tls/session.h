/* session.h: one connection, without its socket. Its functions are those in the table of tls.h, where they are
   described. */
#ifndef RUNNEL_TLS_SESSION_H
#define RUNNEL_TLS_SESSION_H

#include "kit/handle.h"
#include "tls/pipe.h"
#include "tls/setup.h"
#include "tls/tls.h"

#define SESSION_TYPE "runnel.tls.session"

struct Tls {
  Handle handle;
  Setup *setup;   /* with a hold */
  SSL *ssl;       /* OpenSSL's session */
  Pipe pipe;      /* the bytes that were received, and those that must be sent */
  char *host;     /* in a client: the server's name, which is checked; NULL: no name is checked */
  char *peer;     /* the subject of the other end's verified certificate; or NULL */
  char *protocol; /* the protocol that ALPN has chosen; or NULL */
  Why *why;       /* why the session has failed; NULL if it has not failed, or there was no memory for the text */
  bool is_ready;  /* the handshake is complete */
  bool has_ended; /* this end has sent close_notify */
  bool has_failed;
};

/* Like tls_functions.begin, for a setup. The caller's hold of the setup passes to the session. */
Tls *session_begin(Setup *setup, const char *host);

void session_free(Tls *tls);
bool session_feed(Tls *tls, const char *bytes, size_t size);
ptrdiff_t session_read(Tls *tls, char *to, size_t max);
bool session_has_more(const Tls *tls);
ptrdiff_t session_write(Tls *tls, const char *bytes, size_t size);
size_t session_pending(const Tls *tls);
const char *session_first(const Tls *tls);
void session_drop(Tls *tls, size_t size);
void session_end(Tls *tls);
bool session_is_ready(const Tls *tls);
const char *session_protocol(const Tls *tls);
const char *session_error(const Tls *tls);
const char *session_peer(const Tls *tls);

/* Makes the metatable for Lua sessions; pushes a userdata without a session, whose methods raise (kit/handle.h). */
void session_open(lua_State *L, const luaL_Reg *methods);
Handle **session_push(lua_State *L);

/* runnel.tls.core: see module.c. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
int luaopen_runnel_tls_core(lua_State *L);

/* The name of the other end in messages. */
static inline const char *session_other_end(const Tls *tls) {
  return tls->setup->is_server ? "the client" : "the server";
}

#endif
