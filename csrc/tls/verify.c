/* verify.c: see verify.h. */
#include "tls/verify.h"

#include <stdlib.h>

#include "tls/session.h"

int verify_certificate(int ok, X509_STORE_CTX *store) {
  if (ok) return 1;
  SSL *ssl = (SSL *)X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  Tls *tls = (Tls *)SSL_get_app_data(ssl);
  if (tls->why || !(tls->why = (Why *)calloc(1, sizeof *tls->why))) return 0;
  const char *owner = tls->host ? tls->host : session_other_end(tls);
  (void)why_of_certificate(tls->why, X509_STORE_CTX_get_error(store), owner, X509_STORE_CTX_get_current_cert(store),
                           X509_STORE_CTX_get_error_depth(store), tls->host);
  return 0;
}
