/* setup.h: what sessions of one context need of OpenSSL: certificates, authorities, protocols. It does not change once it
   is complete, so several threads may use it. Its holds are counted: a session keeps the one with which it has begun. */
#ifndef RUNNEL_TLS_SETUP_H
#define RUNNEL_TLS_SETUP_H

#include <stdatomic.h>

#include "tls/identity.h"
#include "tls/tickets.h"

/* One name of a certificate. */
typedef struct SetupName {
  char *text;      /* in lower case; may begin with "*." */
  size_t identity; /* index of the certificate */
} SetupName;

typedef enum SetupVerify {
  SETUP_NO_VERIFY, /* the other end's certificate does not matter */
  SETUP_OPTIONAL,  /* it may have none */
  SETUP_REQUIRED   /* it must have a valid one */
} SetupVerify;

typedef struct Setup {
  atomic_uint holds;    /* number of holds */
  bool is_server;       /* of a server; else of clients */
  SetupVerify verify;   /* what is asked of the other end */
  SSL_CTX *ssl;         /* has the first identity */
  Tickets tickets;      /* of a server */
  BIO_METHOD *method;   /* of the sessions' BIOs (pipe.h) */
  Identity *identities; /* the certificates of this end */
  size_t count, room;   /* how many there are, and for how many there is memory */
  SetupName *names;     /* of the certificates; sorted once setup_finish has been called */
  size_t nnames, names_room;
  unsigned char *alpn; /* protocols, each after a byte with its length; best first */
  size_t alpn_size, alpn_room;
  char *host; /* the name that a server's certificate must have, in place of the host that the program names; or NULL */
} Setup;

/* Makes one with one hold; NULL, and why, on failure. */
Setup *setup_new(bool is_server, Why *why);

/* These complete it, before the first session; false, and why, on failure. setup_finish is the last of them. */
bool setup_add_identity(Setup *setup, const char *cert, const char *key, const char *password, Why *why);
bool setup_add_protocol(Setup *setup, const char *name, size_t length, Why *why);
bool setup_trust(Setup *setup, const char *ca, Why *why); /* NULL: the authorities of the system */
bool setup_expect(Setup *setup, const char *host, Why *why);
bool setup_finish(Setup *setup, SetupVerify verify, int (*on_verify)(int, X509_STORE_CTX *), Why *why);

/* Adds a hold, and returns the setup; removes one, and the last one frees it. Any thread. */
Setup *setup_hold(Setup *setup);
void setup_release(Setup *setup);

#endif
