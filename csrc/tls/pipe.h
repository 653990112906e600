/* pipe.h: two queues of bytes that OpenSSL reads from and writes to, in place of a socket. */
#ifndef RUNNEL_TLS_PIPE_H
#define RUNNEL_TLS_PIPE_H

#include <openssl/bio.h>
#include <stdbool.h>

#include "base/bytes.h"

/* All zeros: both are empty. */
typedef struct Pipe {
  Bytes in;      /* from the network */
  Bytes out;     /* for the network */
  bool is_lossy; /* there was no memory for `out`: bytes were lost, so the session cannot go on */
} Pipe;

/* Makes the method that pipe_bio needs; NULL if there is no memory. It must outlive all its BIOs; free it with
   BIO_meth_free. */
BIO_METHOD *pipe_method(void);

/* Makes a BIO over a pipe, which must outlive it; NULL if there is no memory. */
BIO *pipe_bio(const BIO_METHOD *method, Pipe *pipe);

void pipe_free(Pipe *pipe);

#endif
