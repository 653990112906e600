/* identity.c: see identity.h. */
#include "tls/identity.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/* A larger file cannot contain certificates. A system's file of authorities has about 200 KB. */
enum { MAX_FILE = 16 * 1024 * 1024, BLOCK = 16 * 1024 };

/* ---- files and texts ---- */

/* The text of a file or an option, as a BIO. */
typedef struct Pem {
  Bytes bytes;      /* the contents of a file */
  BIO *bio;         /* over the bytes, or over the given text */
  const char *name; /* for messages: the path, or a description */
} Pem;

static bool is_text(const char *where) { return strstr(where, "-----BEGIN") != NULL; }

static bool read_file(Bytes *bytes, const char *path, Why *why) {
  FILE *file = fopen(path, "rbe");
  if (!file) return why_set(why, "cannot read %s: %s", path, strerror(errno));
  char block[BLOCK];
  bool ok = true;
  size_t n = sizeof block;
  while (ok && n == sizeof block) {
    n = fread(block, 1, sizeof block, file);
    if (n < sizeof block && ferror(file)) ok = why_set(why, "cannot read %s: %s", path, strerror(errno));
    else if (bytes_length(bytes) > MAX_FILE) ok = why_set(why, "cannot read %s: it is too large", path);
    else if (!bytes_add(bytes, block, n)) ok = why_set(why, "not enough memory");
  }
  OPENSSL_cleanse(block, sizeof block); /* it may contain a private key */
  (void)fclose(file);
  return ok;
}

static bool pem_open(Pem *pem, const char *where, const char *what, Why *why) {
  *pem = (Pem){.name = is_text(where) ? what : where};
  const char *text = where;
  size_t size = strlen(where);
  if (!is_text(where)) {
    if (!read_file(&pem->bytes, where, why)) return false;
    text = bytes_first(&pem->bytes);
    size = bytes_length(&pem->bytes);
  }
  pem->bio = BIO_new_mem_buf(text, (int)size);
  return pem->bio || why_of_openssl(why, pem->name);
}

static void pem_close(Pem *pem) {
  (void)BIO_free(pem->bio);
  if (pem->bytes.start) OPENSSL_cleanse(pem->bytes.start, pem->bytes.capacity);
  bytes_free(&pem->bytes);
}

/* Whether reading has failed only because the text has no further object. */
static bool is_end(void) {
  unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

/* ---- keys ---- */

typedef struct Password {
  const char *text; /* or NULL */
  bool is_asked;    /* the key is encrypted */
} Password;

/* OpenSSL's callback for passwords; the default one would ask at the terminal. */
static int give_password(char *to, int size, int is_writing, void *data) {
  (void)is_writing;
  Password *password = (Password *)data;
  if (!password) return -1; /* it is not a key that is read */
  password->is_asked = true;
  size_t length = password->text ? strlen(password->text) : 0;
  if (!password->text || length > (size_t)size) return -1;
  memcpy(to, password->text, length);
  return (int)length;
}

static bool load_key(Identity *identity, const char *where, const char *password, Why *why) {
  Pem pem;
  Password secret = {password, false};
  bool ok = pem_open(&pem, where, "the key", why);
  if (ok) {
    identity->key = PEM_read_bio_PrivateKey(pem.bio, NULL, give_password, &secret);
    if (identity->key) ERR_clear_error();
    else if (ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE) ok = why_of_openssl(why, pem.name);
    else if (secret.is_asked && !password)
      ok = why_set(why, "%s: the key needs a password (option password)", pem.name);
    else if (secret.is_asked) ok = why_set(why, "%s: the password does not decrypt the key", pem.name);
    else ok = why_set(why, "%s: it has no private key that OpenSSL can read", pem.name);
  }
  ERR_clear_error();
  pem_close(&pem);
  return ok;
}

/* ---- certificates ---- */

static bool read_certificates(Identity *identity, Pem *pem, Why *why) {
  identity->cert = PEM_read_bio_X509(pem->bio, NULL, give_password, NULL);
  if (!identity->cert) {
    return is_end() ? why_set(why, "%s: it has no certificate", pem->name) : why_of_openssl(why, pem->name);
  }
  identity->chain = sk_X509_new_null();
  if (!identity->chain) return why_of_openssl(why, pem->name);
  for (;;) {
    X509 *next = PEM_read_bio_X509(pem->bio, NULL, give_password, NULL);
    if (!next) break;
    if (sk_X509_push(identity->chain, next)) continue;
    X509_free(next); /* seldom covered: only when memory runs out */
    return why_of_openssl(why, pem->name);
  }
  return is_end() || why_of_openssl(why, pem->name);
}

static bool load_certificates(Identity *identity, const char *where, Why *why) {
  Pem pem;
  bool ok = pem_open(&pem, where, "the certificate", why) && read_certificates(identity, &pem, why);
  ERR_clear_error();
  pem_close(&pem);
  return ok;
}

bool identity_load(Identity *identity, const char *cert, const char *key, const char *password, Why *why) {
  if (!load_certificates(identity, cert, why)) return false;
  if (!load_key(identity, key ? key : cert, password, why)) return false;
  if (X509_check_private_key(identity->cert, identity->key)) return true;
  ERR_clear_error();
  const char *where = key ? key : cert;
  return why_set(why, "the key%s%s does not belong to the certificate%s%s", is_text(where) ? "" : " ",
                 is_text(where) ? "" : where, is_text(cert) ? "" : " ", is_text(cert) ? "" : cert);
}

void identity_free(Identity *identity) {
  X509_free(identity->cert);
  EVP_PKEY_free(identity->key);
  sk_X509_pop_free(identity->chain, X509_free);
  *identity = (Identity){0};
}

/* ---- authorities ---- */

static bool trust_all(SSL_CTX *ssl, Pem *pem, bool are_named, Why *why) {
  int count = 0;
  for (;; count++) {
    X509 *cert = PEM_read_bio_X509_AUX(pem->bio, NULL, give_password, NULL);
    if (!cert) break;
    bool ok = X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), cert) == 1;
    if (ok && are_named) ok = SSL_CTX_add_client_CA(ssl, cert) == 1;
    X509_free(cert);
    if (!ok) return why_of_openssl(why, pem->name);
  }
  if (!is_end()) return why_of_openssl(why, pem->name);
  return count > 0 || why_set(why, "%s: it has no certificate", pem->name);
}

bool identity_trust(SSL_CTX *ssl, const char *ca, bool are_named, Why *why) {
  Pem pem;
  bool ok = pem_open(&pem, ca, "the option ca", why) && trust_all(ssl, &pem, are_named, why);
  ERR_clear_error();
  pem_close(&pem);
  return ok;
}
