/* why.h: why something has failed, as a text that a user understands. Clears OpenSSL's queue of errors, which belongs to
   the thread. */
#ifndef RUNNEL_TLS_WHY_H
#define RUNNEL_TLS_WHY_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

enum { WHY_SIZE = 512 };

typedef struct Why {
  char text[WHY_SIZE]; /* "" before the first failure */
} Why;

/* Writes a text; false, so that a function that fails can return it. */
bool why_set(Why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes "WHAT: " and OpenSSL's first error; if memory has run out, only that. False. */
bool why_of_openssl(Why *why, const char *what);

/* Writes why a handshake or a record has failed, by OpenSSL's first error. `who` is the other end: "the server". False. */
bool why_of_session(Why *why, const char *who);

/* Writes why a certificate has been rejected. `error` is OpenSSL's number (X509_V_ERR), `owner` whose certificate it is
   ("example.org", "the client"), `cert` the one that is wrong, `depth` how far it is above the owner's, and `host` the
   name that was expected, or NULL. False. */
bool why_of_certificate(Why *why, int error, const char *owner, const X509 *cert, int depth, const char *host);

#endif
