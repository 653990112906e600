/* setup.h: the OpenSSL settings for the sessions of one context: certificates, authorities, protocols. A complete setup
   does not change, so several threads may use it. Holds are counted: a session keeps the setup with which it began. */
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
  SETUP_NO_VERIFY, /* the other end's certificate is not checked */
  SETUP_OPTIONAL,  /* the other end may have no certificate */
  SETUP_REQUIRED   /* the other end must have a valid certificate */
} SetupVerify;

typedef struct Setup {
  atomic_uint holds;    /* number of holds */
  bool is_server;       /* of a server; else of clients */
  SetupVerify verify;   /* whether the other end must have a certificate */
  SSL_CTX *ssl;         /* a session chooses of its identities, if there are several */
  Tickets tickets;      /* of a server */
  BIO_METHOD *method;   /* of the sessions' BIOs (pipe.h) */
  Identity *identities; /* the certificates of this end */
  size_t count, room;   /* how many identities there are, and how many fit in the memory */
  SetupName *names;     /* of the certificates; sorted once setup_finish has been called */
  size_t nnames, names_room;
  unsigned char *alpn; /* protocols, each after a byte with its length; best first */
  size_t alpn_size, alpn_room;
  char *host; /* the name that a server's certificate must have, in place of the host that the program names; or NULL */
} Setup;

/* Makes a setup, with one hold. On failure returns NULL and sets *why. */
Setup *setup_new(bool is_server, Why *why);

/* These functions complete a setup, before its first session; setup_finish is the last one. On failure they return
   false and set *why. */
bool setup_add_identity(Setup *setup, const char *cert, const char *key, const char *password, Why *why);
bool setup_add_protocol(Setup *setup, const char *name, size_t length, Why *why);
bool setup_trust(Setup *setup, const char *ca, Why *why); /* NULL: the authorities of the system */
bool setup_expect(Setup *setup, const char *host, Why *why);
bool setup_finish(Setup *setup, SetupVerify verify, int (*on_verify)(int, X509_STORE_CTX *), Why *why);

/* Adds a hold, and returns the setup; removes a hold, and frees the setup when it was the last one. Any thread. */
Setup *setup_hold(Setup *setup);
void setup_release(Setup *setup);

#endif
