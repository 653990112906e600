/* verify.h: finds out why the other end's certificate is rejected. */
#ifndef RUNNEL_TLS_VERIFY_H
#define RUNNEL_TLS_VERIFY_H

#include <openssl/x509.h>

/* OpenSSL's callback for each certificate that it has checked: keeps the text of the first error in the session. */
int verify_certificate(int ok, X509_STORE_CTX *store);

#endif
