/* names.c: see names.h. */
#include "tls/names.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

bool names_copy(char *to, const char *name, size_t length) {
  if (length && name[length - 1] == '.') length--;
  if (!length || length >= NAME_SIZE) return false;
  for (size_t i = 0; i < length; i++) {
    char c = name[i];
    if (c <= ' ' || c > '~') return false;
    to[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  to[length] = 0;
  return true;
}

bool names_write_subject(X509_NAME *name, char *to, size_t size) {
  (void)snprintf(to, size, "an unknown name");
  BIO *bio = name ? BIO_new(BIO_s_mem()) : NULL;
  if (!bio) return false;
  int length = X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB);
  if (length > 0) { /* 0: it has no parts */
    int n = BIO_read(bio, to, (int)size - 1);
    to[n > 0 ? n : 0] = 0;
  }
  (void)BIO_free(bio);
  return length >= 0;
}

/* Copies the common name: it is the host's name in certificates without alternative names. */
static bool copy_common_name(const X509 *cert, char *to) {
  X509_NAME *subject = X509_get_subject_name(cert);
  int at = subject ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
  if (at < 0) return false;
  const ASN1_STRING *text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return names_copy(to, (const char *)ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
}

bool names_each(const X509 *cert, bool (*add)(void *data, const char *name), void *data) {
  GENERAL_NAMES *all = (GENERAL_NAMES *)X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  char name[NAME_SIZE];
  bool ok = true, has_names = false;
  for (int i = 0; ok && i < sk_GENERAL_NAME_num(all); i++) {
    const GENERAL_NAME *one = sk_GENERAL_NAME_value(all, i);
    if (one->type != GEN_DNS) continue;
    const ASN1_STRING *text = one->d.dNSName;
    has_names = true;
    if (!names_copy(name, (const char *)ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text))) continue;
    ok = add(data, name);
  }
  GENERAL_NAMES_free(all);
  return ok && !has_names && copy_common_name(cert, name) ? add(data, name) : ok;
}

/* A text that names_write_all writes. */
typedef struct Listing {
  char *to;
  size_t size, used;
} Listing;

/* `add` of names_each. */
static bool list(void *data, const char *name) {
  Listing *listing = (Listing *)data;
  size_t left = listing->size - listing->used;
  int n = snprintf(listing->to + listing->used, left, "%s%s", listing->used ? ", " : "", name);
  if (n < 0 || (size_t)n >= left) {
    listing->to[listing->used] = 0; /* removes the part of a name */
    return false;
  }
  listing->used += (size_t)n;
  return true;
}

static void list_addresses(const X509 *cert, Listing *listing) {
  GENERAL_NAMES *all = (GENERAL_NAMES *)X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
    const GENERAL_NAME *one = sk_GENERAL_NAME_value(all, i);
    if (one->type != GEN_IPADD) continue;
    char text[INET6_ADDRSTRLEN];
    int family = ASN1_STRING_length(one->d.iPAddress) == sizeof(struct in_addr) ? AF_INET : AF_INET6;
    if (family == AF_INET6 && ASN1_STRING_length(one->d.iPAddress) != sizeof(struct in6_addr)) continue;
    if (inet_ntop(family, ASN1_STRING_get0_data(one->d.iPAddress), text, sizeof text)) (void)list(listing, text);
  }
  GENERAL_NAMES_free(all);
}

void names_write_all(const X509 *cert, char *to, size_t size) {
  Listing listing = {to, size, 0};
  to[0] = 0;
  if (cert) {
    (void)names_each(cert, list, &listing);
    list_addresses(cert, &listing);
  }
  ERR_clear_error();
  if (!listing.used) (void)snprintf(to, size, "no host");
}
