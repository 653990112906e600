/* identity.h: a certificate with its key and the certificates above it, from files or texts in the format PEM. */
#ifndef RUNNEL_TLS_IDENTITY_H
#define RUNNEL_TLS_IDENTITY_H

#include <openssl/ssl.h>

#include "tls/why.h"

/* All zeros: an identity with nothing in it. */
typedef struct Identity {
  X509 *cert;
  EVP_PKEY *key;
  STACK_OF(X509) * chain; /* of the authorities between the certificate and a trusted one */
} Identity;

/* Loads one. `cert` and `key` are paths, or texts that have "-----BEGIN"; the key may be NULL: it is where the
   certificate is. `password` of the key, or NULL. False, and why, on failure. */
bool identity_load(Identity *identity, const char *cert, const char *key, const char *password, Why *why);

void identity_free(Identity *identity);

/* Adds the certificates of authorities in a file or a text to those that `ssl` trusts; also to those that a server names
   to its clients, if `are_named`. False, and why, on failure. */
bool identity_trust(SSL_CTX *ssl, const char *ca, bool are_named, Why *why);

#endif
