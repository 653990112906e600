/* tickets.h: the keys with which a server encrypts tickets, in which clients keep their sessions. OpenSSL would keep its
   keys for as long as the server runs: then a thief of the keys can read all that was recorded before, with TLS 1.2. */
#ifndef RUNNEL_TLS_TICKETS_H
#define RUNNEL_TLS_TICKETS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TICKET_NAME = 16, TICKET_KEY = 32 };

typedef struct TicketKey {
  unsigned char name[TICKET_NAME]; /* at the beginning of each ticket */
  unsigned char cipher[TICKET_KEY];
  unsigned char mac[TICKET_KEY];
} TicketKey;

/* Keys that change by themselves. */
typedef struct Tickets {
  pthread_mutex_t lock; /* guards the fields below */
  TicketKey now;        /* for new tickets */
  TicketKey before;     /* still opens tickets */
  int64_t changes;      /* when `now` becomes `before`, in ms of clock.h */
} Tickets;

/* Makes random keys; false if there is no randomness. */
bool tickets_init(Tickets *tickets);

/* Forgets the keys. */
void tickets_free(Tickets *tickets);

/* The sessions of `ssl` use these keys, which must outlive them. */
void tickets_use(SSL_CTX *ssl, Tickets *tickets);

/* Copies the key for new tickets, after changing it if it is due; false if there is no randomness. */
bool tickets_newest(Tickets *tickets, TicketKey *to);

/* Copies the key with this name; 0: there is none; 1: it is the newest; 2: the client should get a new ticket. */
int tickets_find(Tickets *tickets, const unsigned char *name, TicketKey *to);

#endif
