/* why.h: error messages for users. These functions clear OpenSSL's queue of errors; each thread has its own. */
#ifndef RUNNEL_TLS_WHY_H
#define RUNNEL_TLS_WHY_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

enum { WHY_SIZE = 512 };

typedef struct Why {
  char text[WHY_SIZE]; /* "" before the first failure */
} Why;

/* Writes a text. Returns false, so that a function that fails can return the result. */
bool why_set(Why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes "WHAT: " and OpenSSL's first error, or only "not enough memory". Returns false. */
bool why_of_openssl(Why *why, const char *what);

/* Writes why a handshake or a record has failed, from OpenSSL's first error. `who` is the other end: "the server".
   Returns false. */
bool why_of_session(Why *why, const char *who);

/* Writes why a certificate has been rejected. `error` is OpenSSL's number (X509_V_ERR), `owner` the owner of the
   certificate ("example.org", "the client"), `cert` the certificate with the error, `depth` its position in the chain
   (0: the owner's own), and `host` the expected name, or NULL. Returns false. */
bool why_of_certificate(Why *why, int error, const char *owner, const X509 *cert, int depth, const char *host);

#endif
