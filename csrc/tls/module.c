/* module.c: runnel.tls.core, the C module under lua/runnel/tls.lua: contexts and sessions for Lua, and the table of
   functions for other C modules (tls.h). Its functions check little: the Lua modules do. */
#include <openssl/crypto.h>

#include "tls/context.h"
#include "tls/digest.h"
#include "tls/session.h"

/* How many bytes a read decrypts at a time, and the approximate maximum that it returns. */
enum { BLOCK = 16 * 1024, MOST = 1024 * 1024 };

/* ---- sessions ---- */

static Tls *check_session(lua_State *L) { return (Tls *)handle_check(L, 1, SESSION_TYPE); }

/* session(context, host) -> session, or nil and an error. In a client `host` is the server's; it may be nil if the
   context has the option `name`, or does not check names. */
static int module_session(lua_State *L) {
  TlsContext *context = (TlsContext *)handle_check(L, 1, CONTEXT_TYPE);
  const char *host = luaL_optstring(L, 2, NULL);
  Handle **box = session_push(L);
  Tls *tls = session_begin(context_setup(context), host);
  if (!tls) return luaL_error(L, "not enough memory");
  *box = &tls->handle;
  bool is_checked = !tls->setup->is_server && tls->setup->verify != SETUP_NO_VERIFY;
  if (is_checked && !tls->host) {
    lua_pushnil(L);
    lua_pushliteral(L, "the name that the server's certificate must be for is missing (option name)");
    return 2;
  }
  return 1;
}

/* Pushes the bytes that must be sent, or nil. */
static int push_pending(lua_State *L, Tls *tls) {
  Bytes *out = &tls->pipe.out;
  if (bytes_length(out)) lua_pushlstring(L, bytes_first(out), bytes_length(out));
  else lua_pushnil(L);
  bytes_free(out);
  return 1;
}

/* session:receive(bytes) -> text, state, why: passes received bytes (which may be empty) to the session, and reads.
   `text` is nil if nothing was decrypted. `state` is nil; "ended" if the other end has closed the session; or "failed",
   and then `why` is the error. */
static int session_receive(lua_State *L) {
  Tls *tls = check_session(L);
  size_t size = 0;
  const char *bytes = luaL_optlstring(L, 2, "", &size);
  if (!session_feed(tls, bytes, size)) return luaL_error(L, "not enough memory");
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  size_t total = 0;
  ptrdiff_t n;
  do {
    char *to = luaL_prepbuffsize(&text, BLOCK);
    n = session_read(tls, to, BLOCK);
    if (n <= 0) break;
    luaL_addsize(&text, (size_t)n);
    total += (size_t)n;
  } while (total < MOST);
  luaL_pushresult(&text);
  if (!total) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
  if (n == TLS_END) {
    lua_pushliteral(L, "ended");
    return 2;
  }
  if (n != TLS_FAILED) return 1;
  lua_pushliteral(L, "failed");
  lua_pushstring(L, session_error(tls));
  return 3;
}

/* session:send(text) -> bytes to send, or nil and an error; only nil for an empty text */
static int session_send(lua_State *L) {
  Tls *tls = check_session(L);
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size);
  ptrdiff_t n = session_write(tls, text, size);
  if (n >= 0 && (size_t)n == size) return push_pending(L, tls);
  lua_pushnil(L);
  lua_pushstring(L, n == TLS_FAILED ? session_error(tls) : "the handshake is not complete");
  return 2;
}

/* session:take() -> bytes that must be sent, or nil */
static int session_take_all(lua_State *L) { return push_pending(L, check_session(L)); }

/* session:finish() -> the bytes that end the session, or nil */
static int session_finish(lua_State *L) {
  Tls *tls = check_session(L);
  session_end(tls);
  return push_pending(L, tls);
}

/* session:state() -> "shaking", "ready" or "failed" */
static int session_state(lua_State *L) {
  const Tls *tls = check_session(L);
  lua_pushstring(L, tls->has_failed ? "failed" : tls->is_ready ? "ready" : "shaking");
  return 1;
}

/* session:info() -> a table, once the handshake is complete */
static int session_info(lua_State *L) {
  const Tls *tls = check_session(L);
  lua_createtable(L, 0, 6);
  lua_pushstring(L, SSL_get_version(tls->ssl));
  lua_setfield(L, -2, "version");
  lua_pushstring(L, SSL_get_cipher_name(tls->ssl));
  lua_setfield(L, -2, "cipher");
  lua_pushstring(L, session_protocol(tls));
  lua_setfield(L, -2, "protocol");
  lua_pushstring(L, session_peer(tls));
  lua_setfield(L, -2, "peer");
  lua_pushstring(L, SSL_get_servername(tls->ssl, TLSEXT_NAMETYPE_host_name));
  lua_setfield(L, -2, "name");
  lua_pushboolean(L, SSL_session_reused(tls->ssl));
  lua_setfield(L, -2, "resumed");
  return 1;
}

/* ---- for other C modules ---- */

static TlsContext *hold(lua_State *L, int at) { return (TlsContext *)handle_hold(handle_check(L, at, CONTEXT_TYPE)); }

static void release(TlsContext *context) { handle_release(context); }

static Tls *begin(TlsContext *context, const char *host) { return session_begin(context_setup(context), host); }

static const tls_functions FUNCTIONS = {
    .version = TLS_VERSION,
    .hold = hold,
    .release = release,
    .begin = begin,
    .free = session_free,
    .feed = session_feed,
    .read = session_read,
    .has_more = session_has_more,
    .write = session_write,
    .pending = session_pending,
    .first = session_first,
    .drop = session_drop,
    .end = session_end,
    .is_ready = session_is_ready,
    .protocol = session_protocol,
    .error = session_error,
    .peer = session_peer,
};

int luaopen_runnel_tls_core(lua_State *L) {
  static const luaL_Reg functions[] = {{"context", context_new},
                                       {"kind", context_kind},
                                       {"session", module_session},
                                       {"sha256", digest_sha256},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"finish", session_finish},
                                     {"info", session_info},
                                     {"state", session_state},
                                     {"receive", session_receive},
                                     {"send", session_send},
                                     {"take", session_take_all},
                                     {NULL, NULL}};
  luaL_checkversion(L);
  /* At exit other threads may still use OpenSSL: it must not free what they use. */
  if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1) return luaL_error(L, "OpenSSL cannot be initialized");
  context_open(L);
  session_open(L, methods);
  digest_open(L);
  lua_pushlightuserdata(L, (void *)&FUNCTIONS);
  lua_setfield(L, LUA_REGISTRYINDEX, TLS_FUNCTIONS);
  luaL_newlib(L, functions);
  return 1;
}
