/* names.h: the names in certificates. */
#ifndef RUNNEL_TLS_NAMES_H
#define RUNNEL_TLS_NAMES_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

/* A host's name has at most 253 characters. */
enum { NAME_SIZE = 256 };

/* Writes a subject or an issuer, as in "CN=authority,O=Example"; NULL, or without memory: "an unknown name". */
void names_write_subject(X509_NAME *name, char *to, size_t size);

/* Writes the names and addresses for which a certificate is, as in "example.org, www.example.org"; as many as there is
   room for. */
void names_write_all(const X509 *cert, char *to, size_t size);

/* Calls `add` for each name of hosts in a certificate, which may begin with "*."; in lower case; until it returns false.
   Returns whether it has not. */
bool names_each(const X509 *cert, bool (*add)(void *data, const char *name), void *data);

/* Copies a host's name in lower case, without a dot at its end; false if it is empty, too long, or not a text. */
bool names_copy(char *to, const char *name, size_t length);

#endif
