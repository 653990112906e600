/* names.h: the names in certificates. */
#ifndef RUNNEL_TLS_NAMES_H
#define RUNNEL_TLS_NAMES_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

/* The size of a buffer for a host's name, which has at most 253 characters. */
enum { NAME_SIZE = 256 };

/* Writes a subject or an issuer, as in "CN=authority,O=Example". If it is NULL or memory runs out, writes "an unknown
   name" and returns false. */
bool names_write_subject(X509_NAME *name, char *to, size_t size);

/* Writes the names and addresses of a certificate, as in "example.org, www.example.org"; as many as fit. */
void names_write_all(const X509 *cert, char *to, size_t size);

/* Calls `add` for each host name in a certificate, in lower case (it may begin with "*."), until `add` returns false.
   Returns false in that case. */
bool names_each(const X509 *cert, bool (*add)(void *data, const char *name), void *data);

/* Copies a host's name in lower case, without a dot at its end; false if it is empty, too long, or has a zero byte. */
bool names_copy(char *to, const char *name, size_t length);

#endif
