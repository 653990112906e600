/* why.c: see why.h. */
#include "tls/why.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tls/names.h"

enum { DATE_SIZE = 32, SUBJECT_SIZE = 160, NAMES_SIZE = 200 };

bool why_set(Why *why, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(why->text, sizeof why->text, format, arguments);
  va_end(arguments);
  return false;
}

/* Takes OpenSSL's first error, 0 if there is none, and clears the others. */
static unsigned long take_error(void) {
  unsigned long error = ERR_peek_error();
  ERR_clear_error();
  return error;
}

static const char *reason_of(unsigned long error) {
  const char *reason = ERR_reason_error_string(error);
  return reason ? reason : "unknown error";
}

bool why_of_openssl(Why *why, const char *what) {
  unsigned long error = take_error();
  if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) return why_set(why, "not enough memory");
  return why_set(why, "%s: %s", what, error ? reason_of(error) : "not enough memory");
}

/* ---- sessions ---- */

typedef struct Text {
  int number;       /* OpenSSL's, of an error or of an alert */
  const char *text; /* follows "the client" or "the server" */
} Text;

/* Errors that this end has found. */
static const Text ERRORS[] = {
    {SSL_R_WRONG_VERSION_NUMBER, "does not speak TLS"},
    {SSL_R_PACKET_LENGTH_TOO_LONG, "does not speak TLS"},
    {SSL_R_HTTP_REQUEST, "speaks HTTP without TLS"},
    {SSL_R_HTTPS_PROXY_REQUEST, "speaks HTTP without TLS"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "does not speak TLS 1.2 or 1.3"},
    {SSL_R_UNKNOWN_PROTOCOL, "does not speak TLS 1.2 or 1.3"},
    {SSL_R_VERSION_TOO_LOW, "does not speak TLS 1.2 or 1.3"},
    {SSL_R_NO_SHARED_CIPHER, "has no cipher in common with this end"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "speaks none of the protocols that this end speaks (option alpn)"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "has sent no certificate"},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, "has sent bytes that were changed on the way"},
    {SSL_R_BAD_SIGNATURE, "has not proved that the certificate is its own"},
};

/* Errors that the other end has found, and has sent as alerts. */
static const Text ALERTS[] = {
    {SSL_AD_CERTIFICATE_REQUIRED, "asks for a certificate of this end (options cert and key)"},
    {SSL_AD_UNKNOWN_CA, "does not trust the authority that has signed the certificate of this end"},
    {SSL_AD_BAD_CERTIFICATE, "rejects the certificate of this end"},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, "rejects the certificate of this end: its kind is not supported"},
    {SSL_AD_CERTIFICATE_UNKNOWN, "rejects the certificate of this end"},
    {SSL_AD_CERTIFICATE_EXPIRED, "rejects the certificate of this end: it has expired"},
    {SSL_AD_CERTIFICATE_REVOKED, "rejects the certificate of this end: it was revoked"},
    {SSL_AD_ACCESS_DENIED, "rejects the certificate of this end: it gives no access"},
    {SSL_AD_HANDSHAKE_FAILURE, "rejects the handshake: no cipher suits both, or it asks for a certificate of this end"},
    {SSL_AD_PROTOCOL_VERSION, "rejects the version of TLS"},
    {SSL_AD_UNRECOGNIZED_NAME, "has no certificate for that name"},
    {SSL_AD_NO_APPLICATION_PROTOCOL, "speaks none of the protocols that this end speaks (option alpn)"},
    {SSL_AD_BAD_RECORD_MAC, "has received bytes that were changed on the way"},
};

static const char *find_text(const Text *texts, size_t count, int number) {
  for (size_t i = 0; i < count; i++) {
    if (texts[i].number == number) return texts[i].text;
  }
  return NULL;
}

#define FIND(texts, number) find_text(texts, sizeof(texts) / sizeof *(texts), number)

bool why_of_session(Why *why, const char *who) {
  unsigned long error = take_error();
  int reason = ERR_GET_REASON(error);
  if (!error || reason == ERR_R_MALLOC_FAILURE) return why_set(why, "not enough memory");
  const char *text = NULL;
  if (ERR_GET_LIB(error) == ERR_LIB_SSL) {
    bool is_alert = reason > SSL_AD_REASON_OFFSET;
    text = is_alert ? FIND(ALERTS, reason - SSL_AD_REASON_OFFSET) : FIND(ERRORS, reason);
  }
  if (text) return why_set(why, "%s %s", who, text);
  return why_set(why, "%s breaks the rules of TLS: %s", who, reason_of(error));
}

/* ---- certificates ---- */

static void write_date(const ASN1_TIME *time, char *to) {
  struct tm tm;
  if (!ASN1_TIME_to_tm(time, &tm) || !strftime(to, DATE_SIZE, "%Y-%m-%d %H:%M:%S UTC", &tm)) {
    (void)snprintf(to, DATE_SIZE, "an unknown date"); /* uncovered: OpenSSL has compared it with the time */
  }
}

bool why_of_certificate(Why *why, int error, const char *owner, const X509 *cert, int depth, const char *host) {
  char subject[SUBJECT_SIZE], issuer[SUBJECT_SIZE], names[NAMES_SIZE], date[DATE_SIZE], which[SUBJECT_SIZE * 2];
  (void)names_write_subject(cert ? X509_get_subject_name(cert) : NULL, subject, sizeof subject);
  (void)names_write_subject(cert ? X509_get_issuer_name(cert) : NULL, issuer, sizeof issuer);
  if (depth > 0) (void)snprintf(which, sizeof which, "%s, which is in the chain of %s,", subject, owner);
  else (void)snprintf(which, sizeof which, "%s", owner);
  switch (error) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    write_date(X509_get0_notAfter(cert), date);
    (void)why_set(why, "the certificate of %s has expired on %s", which, date);
    break;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    write_date(X509_get0_notBefore(cert), date);
    (void)why_set(why, "the certificate of %s is not valid before %s", which, date);
    break;
  case X509_V_ERR_HOSTNAME_MISMATCH:
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    names_write_all(cert, names, sizeof names);
    (void)why_set(why, "the certificate is for %s, not for %s", names, host ? host : owner);
    break;
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    (void)why_set(why, "the certificate of %s is self-signed, and not trusted (option ca)", owner);
    break;
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    (void)why_set(why, "the certificate of %s is signed by %s, which is not among the trusted authorities (option ca)",
                  which, issuer);
    break;
  case X509_V_ERR_INVALID_PURPOSE:
    (void)why_set(why, "the certificate of %s is not valid for this use: a server has sent a client's, for example",
                  which);
    break;
  case X509_V_ERR_OUT_OF_MEM: /* seldom covered: only when memory runs out */
    (void)why_set(why, "not enough memory");
    break;
  default:
    (void)why_set(why, "the certificate of %s is rejected: %s", which, X509_verify_cert_error_string(error));
  }
  return false;
}
