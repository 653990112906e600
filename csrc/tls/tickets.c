/* tickets.c: see tickets.h. */
#include "tls/tickets.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#include "base/clock.h"

#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/core_names.h>
#else
#include <openssl/hmac.h>
#endif

/* For how many ms a key encrypts tickets. Afterwards it decrypts tickets for the same time, which must be longer than
   sessions can be resumed. */
enum { LIFE = 12 * 60 * 60 * 1000 };

static bool make(TicketKey *key) { return RAND_bytes((unsigned char *)key, (int)sizeof *key) == 1; }

bool tickets_init(Tickets *tickets) {
  (void)pthread_mutex_init(&tickets->lock, NULL);
  tickets->changes = clock_ms() + LIFE;
  return make(&tickets->now) && make(&tickets->before);
}

void tickets_free(Tickets *tickets) {
  OPENSSL_cleanse(&tickets->now, sizeof tickets->now);
  OPENSSL_cleanse(&tickets->before, sizeof tickets->before);
  (void)pthread_mutex_destroy(&tickets->lock);
}

bool tickets_newest(Tickets *tickets, TicketKey *to) {
  bool ok = true;
  (void)pthread_mutex_lock(&tickets->lock);
  if (clock_ms() >= tickets->changes) {
    TicketKey next;
    ok = make(&next);
    if (ok) {
      tickets->before = tickets->now;
      tickets->now = next;
      tickets->changes = clock_ms() + LIFE;
    }
    OPENSSL_cleanse(&next, sizeof next);
  }
  *to = tickets->now;
  (void)pthread_mutex_unlock(&tickets->lock);
  return ok;
}

int tickets_find(Tickets *tickets, const unsigned char *name, TicketKey *to) {
  (void)pthread_mutex_lock(&tickets->lock);
  const TicketKey *found = memcmp(name, tickets->now.name, TICKET_NAME) == 0      ? &tickets->now
                           : memcmp(name, tickets->before.name, TICKET_NAME) == 0 ? &tickets->before
                                                                                  : NULL;
  int result = !found ? 0 : found == &tickets->now ? 1 : 2;
  if (found) *to = *found;
  (void)pthread_mutex_unlock(&tickets->lock);
  return result;
}

/* ---- OpenSSL's callback, which has other types before 3.0 ---- */

#if OPENSSL_VERSION_NUMBER >= 0x30000000L
typedef EVP_MAC_CTX Mac;
#define SET_CALLBACK SSL_CTX_set_tlsext_ticket_key_evp_cb

static bool set_mac(Mac *mac, TicketKey *key) {
  OSSL_PARAM params[] = {OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, TICKET_KEY),
                         OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
                         OSSL_PARAM_construct_end()};
  return EVP_MAC_CTX_set_params(mac, params) == 1;
}
#else
typedef HMAC_CTX Mac;
#define SET_CALLBACK SSL_CTX_set_tlsext_ticket_key_cb

static bool set_mac(Mac *mac, TicketKey *key) {
  return HMAC_Init_ex(mac, key->mac, TICKET_KEY, EVP_sha256(), NULL) == 1;
}
#endif

/* Sets the keys for a ticket that is made or opened. Returns 1; 2 if the client should also get a new ticket; 0 if the
   ticket cannot be opened, so that the session is a new one; -1 on failure. */
static int set_keys(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, Mac *mac, int is_made) {
  Tickets *tickets = (Tickets *)SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
  TicketKey key;
  int result;
  if (is_made) {
    result = tickets_newest(tickets, &key) && RAND_bytes(iv, EVP_CIPHER_iv_length(EVP_aes_256_cbc())) == 1 ? 1 : -1;
    if (result == 1) memcpy(name, key.name, TICKET_NAME);
  } else {
    result = tickets_find(tickets, name, &key);
  }
  bool ok = result <= 0 || (EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv, is_made ? 1 : 0) == 1 &&
                            set_mac(mac, &key));
  OPENSSL_cleanse(&key, sizeof key);
  return ok ? result : -1;
}

bool tickets_use(SSL_CTX *ssl, Tickets *tickets) {
  return SSL_CTX_set_app_data(ssl, (char *)tickets) == 1 && SET_CALLBACK(ssl, set_keys) == 1;
}
