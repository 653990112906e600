/* tls.h: TLS for other C modules, without sockets: bytes of the network in and out, plain bytes out and in.

   The C module runnel.tls.core (OpenSSL) implements these functions. Other modules are not linked with it: they get the
   table from the Lua state, by tls_get_functions, once the module is loaded. So TLS is optional at run time. A context
   may be used by any thread that has a hold; a session by one thread at a time. No function blocks. */
#ifndef RUNNEL_TLS_H
#define RUNNEL_TLS_H

#include <lauxlib.h>
#include <stdbool.h>
#include <stddef.h>

/* The certificates and settings of a server or of clients. Its holds are counted. */
typedef struct TlsContext TlsContext;

/* One connection. */
typedef struct Tls Tls;

/* Results of tls_functions.read and .write other than a number of bytes. */
enum {
  TLS_WAIT = 0, /* more bytes of the network are needed: the handshake or a record is incomplete */
  TLS_END = -1, /* the other end has closed the session (close_notify) */
  TLS_FAILED =
      -2 /* the session has failed: see tls_functions.error. Send the alert that is still pending, then close */
};

/* The version of the table below. */
enum { TLS_VERSION = 3 };

typedef struct tls_functions {
  int version; /* TLS_VERSION */

  /* The context of the userdata at an index, with a hold for the caller; raises if it is no open context. */
  TlsContext *(*hold)(lua_State *L, int at);
  void (*release)(TlsContext *context);

  /* Begins a session of a server (host NULL), or of a client of the server `host`, whose certificate must be for that
     name. NULL if there is no memory. The session holds the context. */
  Tls *(*begin)(TlsContext *context, const char *host);
  void (*free)(Tls *tls);

  /* Passes bytes from the network to the session; false if there is no memory. */
  bool (*feed)(Tls *tls, const char *bytes, size_t size);

  /* Reads plain bytes, and continues the handshake. Returns the number of bytes, or TLS_WAIT, TLS_END or TLS_FAILED.
     Call it after each `feed`, and again while `has_more`. */
  ptrdiff_t (*read)(Tls *tls, char *to, size_t max);

  /* Whether the session has bytes that `read` has not used: it may return more without further bytes of the network. */
  bool (*has_more)(const Tls *tls);

  /* Encrypts plain bytes: all or none. Returns `size`; TLS_WAIT while the handshake is not complete; or TLS_FAILED. */
  ptrdiff_t (*write)(Tls *tls, const char *bytes, size_t size);

  /* How many bytes must be sent to the network; the first of them; and removes the first `size` of them, which were sent.
     The bytes stay where they are until the next call for the session. */
  size_t (*pending)(const Tls *tls);
  const char *(*first)(const Tls *tls);
  void (*drop)(Tls *tls, size_t size);

  /* Ends the session: adds close_notify to the bytes that must be sent. */
  void (*end)(Tls *tls);

  bool (*is_ready)(const Tls *tls);        /* the handshake is complete */
  const char *(*protocol)(const Tls *tls); /* chosen by ALPN, as in "http/1.1", or NULL */
  const char *(*error)(const Tls *tls);    /* why the session has failed: a message for users */
  const char *(*peer)(const Tls *tls);     /* the subject of the other end's verified certificate, or NULL */
} tls_functions;

/* The registry key under which runnel.tls.core keeps the table, a light userdata. */
#define TLS_FUNCTIONS "runnel.tls.functions"

/* The table; NULL if the module is not loaded, or another version of it. */
static inline const tls_functions *tls_get_functions(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, TLS_FUNCTIONS);
  const tls_functions *functions = (const tls_functions *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return functions && functions->version == TLS_VERSION ? functions : NULL;
}

#endif
