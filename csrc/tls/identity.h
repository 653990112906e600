/* identity.h: a certificate with its key and the certificates above it, from files or texts in the format PEM. */
#ifndef RUNNEL_TLS_IDENTITY_H
#define RUNNEL_TLS_IDENTITY_H

#include <openssl/ssl.h>

#include "tls/why.h"

/* All zeros: an empty identity. */
typedef struct Identity {
  X509 *cert;
  EVP_PKEY *key;
  STACK_OF(X509) * chain; /* the certificates of the authorities between this one and a trusted one */
} Identity;

/* Loads an identity. `cert` and `key` are paths, or texts that contain "-----BEGIN"; with NULL for `key`, `cert`
   contains the key, too. `password` is the key's, or NULL. On failure returns false and sets *why. */
bool identity_load(Identity *identity, const char *cert, const char *key, const char *password, Why *why);

void identity_free(Identity *identity);

/* Makes `ssl` trust the authorities whose certificates are in a file or a text; with `are_named`, a server also sends
   their names to its clients. On failure returns false and sets *why. */
bool identity_trust(SSL_CTX *ssl, const char *ca, bool are_named, Why *why);

#endif
