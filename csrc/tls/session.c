/* session.c: see session.h. */
#include "tls/session.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "tls/names.h"

/* The size of the text of a subject; longer ones are cut. */
enum { PEER_SIZE = 512 };

static char *copy(const char *text, size_t length) {
  char *to = (char *)calloc(1, length + 1);
  return to ? (char *)memcpy(to, text, length) : NULL;
}

/* ---- failures ---- */

/* Notes that the session has failed: with OpenSSL's first error, unless verify.c has set a reason already. */
static void fail(Tls *tls) {
  tls->has_failed = true;
  if (!tls->why && (tls->why = (Why *)calloc(1, sizeof *tls->why)))
    (void)why_of_session(tls->why, session_other_end(tls));
  ERR_clear_error();
}

const char *session_error(const Tls *tls) {
  if (!tls->has_failed) return tls->has_ended ? "it has been ended" : NULL;
  return tls->why ? tls->why->text : "not enough memory";
}

/* ---- the beginning and the end ---- */

/* HandleType.free */
static void free_session(void *object) {
  Tls *tls = (Tls *)object;
  SSL_free(tls->ssl);
  pipe_free(&tls->pipe);
  setup_release(tls->setup);
  free(tls->host);
  free(tls->peer);
  free(tls->protocol);
  free(tls->why);
  free(tls);
}

static const HandleType session_type = {SESSION_TYPE, NULL, free_session};

void session_open(lua_State *L, const luaL_Reg *methods) { handle_open(L, &session_type, methods); }

Handle **session_push(lua_State *L) { return handle_push(L, &session_type); }

void session_free(Tls *tls) { handle_release(tls); }

static bool is_address(const char *host) {
  unsigned char address[sizeof(struct in6_addr)];
  return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* Sets the host that the server's certificate must be for. */
static bool expect(Tls *tls, const char *host) {
  size_t length = strlen(host);
  if (length > 1 && host[length - 1] == '.') length--;
  tls->host = copy(host, length);
  if (!tls->host) return false;
  bool is_checked = tls->setup->verify != SETUP_NO_VERIFY;
  if (is_address(tls->host)) {
    return !is_checked || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), tls->host) == 1;
  }
  if (is_checked && SSL_set1_host(tls->ssl, tls->host) != 1) return false;
  return SSL_set_tlsext_host_name(tls->ssl, tls->host) == 1;
}

static bool prepare(Tls *tls, const char *host) {
  tls->ssl = SSL_new(tls->setup->ssl);
  if (!tls->ssl) return false;
  BIO *bio = pipe_bio(tls->setup->method, &tls->pipe);
  if (!bio) return false;
  SSL_set_bio(tls->ssl, bio, bio);
  if (SSL_set_app_data(tls->ssl, (char *)tls) != 1) return false; /* verify_certificate needs it */
  if (tls->setup->is_server) {
    SSL_set_accept_state(tls->ssl);
    return true;
  }
  SSL_set_connect_state(tls->ssl);
  if (tls->setup->host) host = tls->setup->host;
  return !host || expect(tls, host);
}

Tls *session_begin(Setup *setup, const char *host) {
  Tls *tls = (Tls *)calloc(1, sizeof *tls);
  if (!tls) {
    setup_release(setup);
    return NULL;
  }
  handle_init(tls, &session_type);
  tls->setup = setup;
  bool ok = prepare(tls, host);
  ERR_clear_error();
  if (ok) return tls;
  session_free(tls);
  return NULL;
}

void session_end(Tls *tls) {
  if (!tls->is_ready || tls->has_failed || tls->has_ended) return;
  tls->has_ended = true;
  (void)SSL_shutdown(tls->ssl);
  ERR_clear_error();
}

/* ---- the handshake ---- */

/* Keeps the subject of the other end's certificate, if it was verified. False if there is no memory: the session must
   fail then, since the program would believe that the other end has no certificate. */
static bool keep_peer(Tls *tls) {
  if (tls->setup->verify == SETUP_NO_VERIFY) return true;
  X509 *cert = SSL_get_peer_certificate(tls->ssl);
  if (!cert) return true;
  char subject[PEER_SIZE];
  bool is_known = names_write_subject(X509_get_subject_name(cert), subject, sizeof subject);
  X509_free(cert);
  if (!is_known) return false;
  tls->peer = copy(subject, strlen(subject));
  return tls->peer != NULL;
}

static bool keep_protocol(Tls *tls) {
  const unsigned char *name = NULL;
  unsigned length = 0;
  SSL_get0_alpn_selected(tls->ssl, &name, &length);
  if (!name) return true;
  tls->protocol = copy((const char *)name, length);
  return tls->protocol != NULL;
}

/* The result for a call of OpenSSL that has not succeeded. */
static ptrdiff_t result_of(Tls *tls, int result) {
  int error = SSL_get_error(tls->ssl, result);
  if (!tls->pipe.is_lossy && error == SSL_ERROR_WANT_READ) return TLS_WAIT;
  if (error == SSL_ERROR_ZERO_RETURN) return TLS_END;
  fail(tls);
  return TLS_FAILED;
}

/* Continues the handshake. Returns 1 once it is complete; else TLS_WAIT, TLS_END or TLS_FAILED. */
static ptrdiff_t shake(Tls *tls) {
  int result = SSL_do_handshake(tls->ssl);
  if (result != 1) return result_of(tls, result);
  tls->is_ready = true;
  tls->has_failed = !keep_peer(tls) || !keep_protocol(tls);
  ERR_clear_error();
  return tls->has_failed ? TLS_FAILED : 1;
}

bool session_is_ready(const Tls *tls) { return tls->is_ready; }

const char *session_peer(const Tls *tls) { return tls->peer; }

const char *session_protocol(const Tls *tls) { return tls->protocol; }

/* ---- bytes ---- */

bool session_feed(Tls *tls, const char *bytes, size_t size) { return bytes_add(&tls->pipe.in, bytes, size); }

/* OpenSSL's errors of this thread must be empty before a call: those of other libraries may be there. */
static void clear_errors(void) {
  if (ERR_peek_error()) ERR_clear_error(); /* clearing costs more */
}

bool session_has_more(const Tls *tls) { return bytes_length(&tls->pipe.in) > 0 || SSL_has_pending(tls->ssl); }

ptrdiff_t session_read(Tls *tls, char *to, size_t max) {
  if (tls->has_failed) return TLS_FAILED;
  clear_errors();
  if (!tls->is_ready) {
    ptrdiff_t result = shake(tls);
    if (result != 1) return result;
  }
  if (!max) return TLS_WAIT;
  size_t n = 0;
  int result = SSL_read_ex(tls->ssl, to, max, &n);
  return result == 1 ? (ptrdiff_t)n : result_of(tls, result);
}

ptrdiff_t session_write(Tls *tls, const char *bytes, size_t size) {
  if (tls->has_failed || tls->has_ended) return TLS_FAILED;
  if (!tls->is_ready) return TLS_WAIT;
  if (!size) return 0;
  clear_errors();
  size_t n = 0;
  if (SSL_write_ex(tls->ssl, bytes, size, &n) == 1) return (ptrdiff_t)n;
  fail(tls);
  return TLS_FAILED;
}

const char *session_first(const Tls *tls) { return bytes_first(&tls->pipe.out); }

void session_drop(Tls *tls, size_t size) { bytes_drop(&tls->pipe.out, size); }

size_t session_pending(const Tls *tls) { return bytes_length(&tls->pipe.out); }
