/* pipe.c: see pipe.h. */
#include "tls/pipe.h"

/* BIO_meth_set_read */
static int pipe_read(BIO *bio, char *to, int size) {
  Pipe *pipe = (Pipe *)BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  size_t n = bytes_take(&pipe->in, to, (size_t)size);
  if (n) return (int)n;
  BIO_set_retry_read(bio);
  return -1;
}

/* BIO_meth_set_write */
static int pipe_write(BIO *bio, const char *from, int size) {
  Pipe *pipe = (Pipe *)BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  if (bytes_add(&pipe->out, from, (size_t)size)) return size;
  pipe->is_lossy = true;
  return -1;
}

/* BIO_meth_set_ctrl */
static long pipe_control(BIO *bio, int command, long number, void *pointer) {
  (void)number;
  (void)pointer;
  const Pipe *pipe = (const Pipe *)BIO_get_data(bio);
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_PENDING) return (long)bytes_length(&pipe->in);
  return 0;
}

BIO_METHOD *pipe_method(void) {
  BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "runnel.tls");
  if (!method) return NULL;
  (void)BIO_meth_set_read(method, pipe_read);
  (void)BIO_meth_set_write(method, pipe_write);
  (void)BIO_meth_set_ctrl(method, pipe_control);
  return method;
}

BIO *pipe_bio(const BIO_METHOD *method, Pipe *pipe) {
  BIO *bio = BIO_new(method);
  if (!bio) return NULL;
  BIO_set_data(bio, pipe);
  BIO_set_init(bio, 1);
  return bio;
}

void pipe_free(Pipe *pipe) {
  bytes_free(&pipe->in);
  bytes_free(&pipe->out);
}
