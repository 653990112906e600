/* wire.c: see wire.h. */
#include "http/server/wire.h"

#include <errno.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/sockios.h>
#endif

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* How many bytes are encrypted at a time: one TLS record. */
enum { RECORD = 16 * 1024 };

/* From how many encrypted bytes on they are sent: a call for each record would cost more. */
enum { SEALED = 48 * 1024 };

static void end_session(Wire *wire) {
  if (wire->tls) wire->lib->free(wire->tls);
  wire->tls = NULL;
}

void wire_close(Wire *wire) {
  end_session(wire);
  (void)close(wire->fd);
}

static bool is_temporary(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/* Receives bytes without TLS. */
static ptrdiff_t receive_raw(const Wire *wire, char *to, size_t max) {
  ssize_t n = recv(wire->fd, to, max, 0);
  if (n > 0) return n;
  return n == 0 ? WIRE_END : is_temporary(errno) ? WIRE_NONE : WIRE_LOST;
}

static ptrdiff_t open_sealed(Wire *wire, char *to, size_t max, bool *has_more) {
  ptrdiff_t n = wire->lib->read(wire->tls, to, max);
  *has_more = n > 0 && wire->lib->has_more(wire->tls);
  if (n == TLS_FAILED) wire->has_failed = true;
  return n >= 0 ? n : n == TLS_END ? WIRE_END : WIRE_LOST;
}

/* Whether this byte begins an HTTP request, and so no record of TLS. */
static bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

ptrdiff_t wire_receive(Wire *wire, char *to, size_t max, bool *has_more) {
  *has_more = false;
  if (!wire->tls) return receive_raw(wire, to, max);
  ptrdiff_t n = wire->lib->has_more(wire->tls) ? open_sealed(wire, to, max, has_more) : 0;
  if (n != 0) return n;
  n = receive_raw(wire, to, RECORD);
  if (n <= 0) return n;
  if (!wire->has_begun && is_letter(*to)) {
    end_session(wire);
    return WIRE_PLAIN;
  }
  wire->has_begun = true;
  if (!wire->lib->feed(wire->tls, to, (size_t)n)) return WIRE_LOST;
  return open_sealed(wire, to, max, has_more);
}

/* Sends bytes without encrypting them, as many as the socket takes; false if the connection is broken. */
static bool send_raw(const Wire *wire, Bytes *bytes) {
  while (bytes_length(bytes) > 0) {
    ssize_t n = send(wire->fd, bytes_first(bytes), bytes_length(bytes), MSG_NOSIGNAL);
    if (n < 0) return is_temporary(errno);
    bytes_drop(bytes, (size_t)n);
  }
  return true;
}

size_t wire_send_two(const Wire *wire, const char *first, size_t nfirst, const char *second, size_t nsecond) {
  struct iovec parts[] = {{(void *)(uintptr_t)first, nfirst}, {(void *)(uintptr_t)second, nsecond}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t n = sendmsg(wire->fd, &message, MSG_NOSIGNAL);
  return n > 0 ? (size_t)n : 0;
}

/* Encrypts the next bytes of `out`; false if it cannot. */
static bool seal(Wire *wire, Bytes *out) {
  size_t n = bytes_length(out) < RECORD ? bytes_length(out) : RECORD;
  if (!n || wire->has_failed) return false;
  ptrdiff_t result = wire->lib->write(wire->tls, bytes_first(out), n);
  if (result == TLS_FAILED) wire->has_failed = true;
  if (result <= 0) return false;
  bytes_drop(out, n);
  return true;
}

/* Sends what the session wants to send, as much as the socket takes; false if the connection is broken. */
static bool send_pending(const Wire *wire) {
  size_t size;
  while ((size = wire->lib->pending(wire->tls)) > 0) {
    ssize_t n = send(wire->fd, wire->lib->first(wire->tls), size, MSG_NOSIGNAL);
    if (n < 0) return is_temporary(errno);
    wire->lib->drop(wire->tls, (size_t)n);
  }
  return true;
}

static bool send_sealed(Wire *wire, Bytes *out) {
  bool has_sealed;
  do {
    has_sealed = false;
    while (wire->lib->pending(wire->tls) < SEALED && seal(wire, out)) has_sealed = true;
    if (!send_pending(wire)) return false;
  } while (has_sealed && wire_is_flushed(wire));
  return !wire->has_failed;
}

ptrdiff_t wire_send(Wire *wire, Bytes *out) {
  size_t before = bytes_length(out);
  bool ok = wire->tls ? send_sealed(wire, out) : send_raw(wire, out);
  return ok ? (ptrdiff_t)(before - bytes_length(out)) : -1;
}

void wire_end(Wire *wire) {
  if (wire->tls && !wire->has_failed) wire->lib->end(wire->tls);
}

bool wire_has_unread(const Wire *wire) {
  int n = 0;
  return ioctl(wire->fd, FIONREAD, &n) == 0 && n > 0;
}

size_t wire_unacknowledged(const Wire *wire) {
  int n = 0;
#ifdef __linux__
  (void)ioctl(wire->fd, SIOCOUTQ, &n); /* leaves it if it fails */
#else
  (void)wire;
#endif
  return n > 0 ? (size_t)n : 0;
}
