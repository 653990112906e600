/* tickets.h: the keys with which a server encrypts tickets, in which clients keep their sessions. OpenSSL's own keys
   would not change while the server runs: with TLS 1.2, anyone who steals them could decrypt all connections that were
   recorded before. */
#ifndef RUNNEL_TLS_TICKETS_H
#define RUNNEL_TLS_TICKETS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TICKET_NAME = 16, TICKET_KEY = 32 };

typedef struct TicketKey {
  unsigned char name[TICKET_NAME]; /* the name of the key; each ticket begins with it */
  unsigned char cipher[TICKET_KEY];
  unsigned char mac[TICKET_KEY];
} TicketKey;

/* Keys that are replaced when they are LIFE old. */
typedef struct Tickets {
  pthread_mutex_t lock; /* guards the fields below */
  TicketKey now;        /* encrypts new tickets */
  TicketKey before;     /* still decrypts older tickets */
  int64_t changes;      /* when `now` becomes `before`, in ms of clock.h */
} Tickets;

/* Makes random keys; false if the system gives no random bytes. */
bool tickets_init(Tickets *tickets);

/* Erases the keys. */
void tickets_free(Tickets *tickets);

/* Makes the sessions of `ssl` use these keys, which must outlive them; false if there is no memory. */
bool tickets_use(SSL_CTX *ssl, Tickets *tickets);

/* Copies the key for new tickets, after replacing it if it is too old; false if the system gives no random bytes. */
bool tickets_newest(Tickets *tickets, TicketKey *to);

/* Copies the key with this name. Returns 0 if there is none; 1 if it is the newest key; 2 if the client should get a
   new ticket. */
int tickets_find(Tickets *tickets, const unsigned char *name, TicketKey *to);

#endif
