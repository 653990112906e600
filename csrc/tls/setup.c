/* setup.c: see setup.h. */
#include "tls/setup.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "tls/names.h"
#include "tls/pipe.h"

/* The ciphers for TLS 1.2: those with forward secrecy and authenticated encryption. All of TLS 1.3 have both. */
static const char CIPHERS[] = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL";

/* The groups for the exchange of keys: those of which a handshake takes less than a millisecond. OpenSSL's own list has
   ffdhe8192, too, which takes 140 ms, and a client may choose it. The first one resists quantum computers; releases
   before 3.5 do not know it. */
#define GROUPS "X25519:P-256:P-384:P-521"
static const char ALL_GROUPS[] = "X25519MLKEM768:" GROUPS;

/* For how many seconds a client may resume a session; and the most bytes of a protocol's name. */
enum { RESUMABLE = 2 * 60 * 60, MAX_PROTOCOL = 255 };

/* ---- making one ----  */

static bool no_memory(Why *why) { return why_set(why, "not enough memory"); }

static bool set_groups(SSL_CTX *ssl) {
  bool ok = SSL_CTX_set1_groups_list(ssl, ALL_GROUPS) == 1 || SSL_CTX_set1_groups_list(ssl, GROUPS) == 1;
  if (ok) ERR_clear_error();
  return ok;
}

static bool configure(Setup *setup, Why *why) {
  SSL_CTX *ssl = setup->ssl;
  (void)SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_PRIORITIZE_CHACHA);
  (void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
  (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* clients keep the sessions, in encrypted tickets */
  (void)SSL_CTX_set_timeout(ssl, RESUMABLE);
  X509_VERIFY_PARAM_set_hostflags(SSL_CTX_get0_param(ssl), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  bool ok = SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1;
  if (setup->is_server) {
    ok = ok && SSL_CTX_set_cipher_list(ssl, CIPHERS) == 1 && set_groups(ssl) && tickets_use(ssl, &setup->tickets);
  }
  ok = ok && SSL_CTX_set_session_id_context(ssl, (const unsigned char *)"runnel", sizeof "runnel" - 1) == 1;
  return ok || why_of_openssl(why, "TLS");
}

Setup *setup_new(bool is_server, Why *why) {
  Setup *setup = (Setup *)calloc(1, sizeof *setup);
  if (!setup) {
    (void)no_memory(why);
    return NULL;
  }
  atomic_init(&setup->holds, 1);
  setup->is_server = is_server;
  bool has_keys = tickets_init(&setup->tickets);
  setup->method = pipe_method();
  setup->ssl = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  bool ok = has_keys && setup->method && setup->ssl ? configure(setup, why) : why_of_openssl(why, "TLS");
  if (ok) return setup;
  setup_release(setup);
  return NULL;
}

Setup *setup_hold(Setup *setup) {
  atomic_fetch_add(&setup->holds, 1);
  return setup;
}

void setup_release(Setup *setup) {
  if (atomic_fetch_sub(&setup->holds, 1) != 1) return;
  SSL_CTX_free(setup->ssl);
  BIO_meth_free(setup->method);
  tickets_free(&setup->tickets);
  for (size_t i = 0; i < setup->count; i++) identity_free(&setup->identities[i]);
  for (size_t i = 0; i < setup->nnames; i++) free(setup->names[i].text);
  free(setup->identities);
  free(setup->names);
  free(setup->alpn);
  free(setup->host);
  free(setup);
}

/* ---- certificates ---- */

/* `add` of names_each: adds a name of the last identity. */
static bool add_name(void *data, const char *name) {
  Setup *setup = (Setup *)data;
  SetupName *names = (SetupName *)grow(setup->names, &setup->names_room, setup->nnames + 1, sizeof *names);
  if (!names) return false;
  setup->names = names;
  size_t size = strlen(name) + 1;
  SetupName *added = &names[setup->nnames];
  *added = (SetupName){(char *)malloc(size), setup->count - 1};
  if (!added->text) return false;
  memcpy(added->text, name, size);
  setup->nnames++;
  return true;
}

/* Makes sessions use an identity by default. */
static bool use(Setup *setup, const Identity *identity, Why *why) {
  ERR_clear_error();
  if (SSL_CTX_use_cert_and_key(setup->ssl, identity->cert, identity->key, identity->chain, 1) == 1) return true;
  return why_of_openssl(why, "the certificate cannot be used");
}

bool setup_add_identity(Setup *setup, const char *cert, const char *key, const char *password, Why *why) {
  Identity *all = (Identity *)grow(setup->identities, &setup->room, setup->count + 1, sizeof *all);
  if (!all) return no_memory(why);
  setup->identities = all;
  Identity *identity = &all[setup->count++];
  *identity = (Identity){0};
  if (!identity_load(identity, cert, key, password, why)) return false;
  /* Tries each identity, so that OpenSSL reports now if its key is too short, for example. */
  if (!use(setup, identity, why)) return false;
  return names_each(identity->cert, add_name, setup) || no_memory(why);
}

static int compare(const void *a, const void *b) {
  const SetupName *left = (const SetupName *)a, *right = (const SetupName *)b;
  return strcmp(left->text, right->text);
}

/* Like compare, but several certificates for one name stay in the order in which they were added. */
static int compare_all(const void *a, const void *b) {
  const SetupName *left = (const SetupName *)a, *right = (const SetupName *)b;
  int order = compare(a, b);
  return order ? order : (left->identity > right->identity) - (left->identity < right->identity);
}

/* The first of the names that equal a text, and their number; or NULL, and 0. */
static const SetupName *find_name(const Setup *setup, const char *text, size_t *count) {
  const SetupName key = {(char *)text, 0}, *end = setup->names + setup->nnames;
  *count = 0;
  if (!setup->nnames) return NULL;
  const SetupName *found = (const SetupName *)bsearch(&key, setup->names, setup->nnames, sizeof key, compare);
  if (!found) return NULL;
  while (found > setup->names && compare(found - 1, &key) == 0) found--;
  while (found + *count < end && compare(found + *count, &key) == 0) ++*count;
  return found;
}

/* The names of certificates for a name that a client asks for; NULL if there is none, or it asks for none. */
static const SetupName *find_wanted(const Setup *setup, const char *wanted, size_t *count) {
  char name[NAME_SIZE];
  *count = 0;
  if (!wanted || !names_copy(name, wanted, strlen(wanted))) return NULL;
  const SetupName *found = find_name(setup, name, count);
  char *dot = strchr(name, '.');
  if (found || !dot || dot == name) return found;
  dot[-1] = '*'; /* "*.example.org" */
  return find_name(setup, dot - 1, count);
}

static int use_in(SSL *ssl, const Identity *identity) {
  return SSL_use_cert_and_key(ssl, identity->cert, identity->key, identity->chain, 1);
}

/* OpenSSL's callback while a session begins: chooses the certificate. A session has one for each kind of key, and uses
   the kind that suits the client best: so it must have none for another name. Of several with the name and one kind of
   key, the first counts. */
static int choose_identity(SSL *ssl, void *data) {
  const Setup *setup = (const Setup *)data;
  size_t count;
  const SetupName *found = find_wanted(setup, SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), &count);
  SSL_certs_clear(ssl);
  if (!found) return use_in(ssl, setup->identities);
  while (count > 0) {
    if (use_in(ssl, &setup->identities[found[--count].identity]) != 1) return 0;
  }
  return 1;
}

bool setup_trust(Setup *setup, const char *ca, Why *why) {
  if (ca) return identity_trust(setup->ssl, ca, setup->is_server, why);
  return SSL_CTX_set_default_verify_paths(setup->ssl) == 1 || why_of_openssl(why, "the authorities of the system");
}

bool setup_expect(Setup *setup, const char *host, Why *why) {
  size_t size = strlen(host) + 1;
  if (size > TLSEXT_MAXLEN_host_name + 1) {
    return why_set(why, "name: the name of a host has at most %d bytes", TLSEXT_MAXLEN_host_name);
  }
  setup->host = (char *)malloc(size);
  if (!setup->host) return no_memory(why);
  memcpy(setup->host, host, size);
  return true;
}

/* ---- protocols ---- */

bool setup_add_protocol(Setup *setup, const char *name, size_t length, Why *why) {
  if (!length || length > MAX_PROTOCOL) return why_set(why, "alpn: a name has 1 to %d bytes", MAX_PROTOCOL);
  unsigned char *alpn = (unsigned char *)grow(setup->alpn, &setup->alpn_room, setup->alpn_size + length + 1, 1);
  if (!alpn) return no_memory(why);
  setup->alpn = alpn;
  alpn[setup->alpn_size] = (unsigned char)length;
  memcpy(alpn + setup->alpn_size + 1, name, length);
  setup->alpn_size += length + 1;
  return true;
}

/* OpenSSL's callback: chooses one of the protocols that a client offers. */
static int choose_protocol(SSL *ssl, const unsigned char **to, unsigned char *size, const unsigned char *offered,
                           unsigned offered_size, void *data) {
  (void)ssl;
  const Setup *setup = (const Setup *)data;
  unsigned char *chosen = NULL;
  int result = SSL_select_next_proto(&chosen, size, setup->alpn, (unsigned)setup->alpn_size, offered, offered_size);
  *to = chosen;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool setup_finish(Setup *setup, SetupVerify verify, int (*on_verify)(int, X509_STORE_CTX *), Why *why) {
  static const int MODES[] = {SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT};
  setup->verify = verify;
  SSL_CTX_set_verify(setup->ssl, MODES[verify], on_verify);
  if (setup->nnames) qsort(setup->names, setup->nnames, sizeof *setup->names, compare_all);
  if (setup->count > 1) SSL_CTX_set_cert_cb(setup->ssl, choose_identity, setup);
  if (!setup->alpn_size) return true;
  if (setup->is_server) SSL_CTX_set_alpn_select_cb(setup->ssl, choose_protocol, setup);
  else if (SSL_CTX_set_alpn_protos(setup->ssl, setup->alpn, (unsigned)setup->alpn_size) != 0) return no_memory(why);
  return true;
}
