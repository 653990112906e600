/* listen.c: see listen.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): declares accept4 */
#endif
#include "http/server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/filter.h>
#endif

typedef union Address {
  struct sockaddr any;    /* its family */
  struct sockaddr_in v4;  /* AF_INET */
  struct sockaddr_in6 v6; /* AF_INET6 */
  struct sockaddr_un un;  /* AF_UNIX */
} Address;

/* Reads a numeric address; returns its size, or 0. */
static socklen_t parse(const char *text, int port, Address *address) {
  memset(address, 0, sizeof *address);
  if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1) {
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons((uint16_t)port);
    return sizeof address->v4;
  }
  if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) != 1) return 0;
  address->v6.sin6_family = AF_INET6;
  address->v6.sin6_port = htons((uint16_t)port);
  return sizeof address->v6;
}

static bool set(int fd, int option) { return setsockopt(fd, SOL_SOCKET, option, &(int){1}, sizeof(int)) == 0; }

/* Both return false, with errno, on failure. */

static bool prepare(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0; }

static bool take_port(int fd, const Place *place, const Address *address, socklen_t size) {
  return prepare(fd) && set(fd, SO_REUSEADDR) && (!place->shares || set(fd, SO_REUSEPORT)) &&
         bind(fd, &address->any, size) == 0 && listen(fd, SOMAXCONN) == 0;
}

/* Reads port or path of a socket; false if it is not one of TCP, or a Unix socket with a path: errno is ENOTSOCK. */
static bool describe_own(Listening *own) {
  Address address = {.any.sa_family = AF_UNSPEC};
  int type = 0;
  socklen_t size = sizeof address, type_size = sizeof type;
  bool ok = getsockopt(own->fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM &&
            getsockname(own->fd, &address.any, &size) == 0;
  if (ok && address.any.sa_family == AF_INET) own->port = ntohs(address.v4.sin_port);
  if (ok && address.any.sa_family == AF_INET6) own->port = ntohs(address.v6.sin6_port);
  if (ok && address.any.sa_family == AF_UNIX) memcpy(own->path, address.un.sun_path, PATH_SIZE - 1);
  if (own->port != 0 || *own->path) return true;
  errno = ENOTSOCK;
  return false;
}

static bool take_given(Listening *own, char *why, size_t size) {
  if (describe_own(own) && prepare(own->fd) && listen(own->fd, SOMAXCONN) == 0) return true;
  (void)snprintf(why, size, "descriptor %d is not a TCP socket with a port, or a Unix socket, such as systemd passes",
                 own->fd);
  own->fd = -1; /* the caller's */
  return false;
}

/* Whether the file is a Unix socket to which nobody listens: its program has ended without removing it. */
static bool is_left_over(const Address *address) {
  struct stat info;
  if (lstat(address->un.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  bool is = fd >= 0 && prepare(fd) && connect(fd, &address->any, sizeof address->un) != 0 && errno == ECONNREFUSED;
  if (fd >= 0) (void)close(fd);
  return is;
}

static bool bind_path(int fd, const Address *address) {
  if (bind(fd, &address->any, sizeof address->un) == 0) return true;
  if (errno != EADDRINUSE) return false;
  bool is_free = is_left_over(address) && unlink(address->un.sun_path) == 0;
  errno = EADDRINUSE;
  return is_free && bind(fd, &address->any, sizeof address->un) == 0;
}

static bool take_path(Listening *own, const Place *place, char *why, size_t size) {
  Address address = {.un.sun_family = AF_UNIX};
  if (strlen(place->path) >= PATH_SIZE) {
    (void)snprintf(why, size, "the path of a Unix socket has at most %d bytes: %s", PATH_SIZE - 1, place->path);
    return false;
  }
  memcpy(address.un.sun_path, place->path, strlen(place->path));
  memcpy(own->path, address.un.sun_path, PATH_SIZE);
  own->fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (own->fd >= 0 && prepare(own->fd) && bind_path(own->fd, &address)) {
    own->has_made = true;
    if ((place->mode < 0 || chmod(place->path, (mode_t)place->mode) == 0) && listen(own->fd, SOMAXCONN) == 0)
      return true; /* no client could connect before */
  }
  if (errno == EADDRINUSE)
    (void)snprintf(why, size, "%s is taken: another program listens there, or it is no socket", place->path);
  else (void)snprintf(why, size, "cannot listen at %s: %s", place->path, strerror(errno));
  return false;
}

static bool take_address(Listening *own, const Place *place, char *why, size_t size) {
  Address address;
  socklen_t length = parse(place->address, place->port, &address);
  if (!length) {
    (void)snprintf(why, size, "%s is not a numeric address, such as 127.0.0.1, 0.0.0.0 or ::1", place->address);
    return false;
  }
  own->fd = socket(address.any.sa_family, SOCK_STREAM, 0);
  if (own->fd >= 0 && take_port(own->fd, place, &address, length) && describe_own(own)) return true;
  if (errno == EADDRINUSE)
    (void)snprintf(why, size, "port %d of %s is taken by another program", place->port, place->address);
  else (void)snprintf(why, size, "cannot listen on port %d of %s: %s", place->port, place->address, strerror(errno));
  return false;
}

Listening listen_at(const Place *place, char *why, size_t size) {
  Listening own = {.fd = place->fd};
  bool ok = place->fd >= 0 ? take_given(&own, why, size)
            : place->path  ? take_path(&own, place, why, size)
                           : take_address(&own, place, why, size);
  if (!ok) listen_end(&own);
  return own;
}

void listen_end(Listening *own) {
  Address address = {.un.sun_family = AF_UNIX};
  memcpy(address.un.sun_path, own->path, PATH_SIZE);
  if (own->fd >= 0) (void)close(own->fd);
  if (own->has_made && is_left_over(&address)) (void)unlink(own->path);
  own->fd = -1;
  own->has_made = false;
}

void listen_limit_unread(int fd, int64_t ms) {
#ifdef TCP_USER_TIMEOUT
  unsigned limit = ms < INT_MAX ? (unsigned)ms : INT_MAX; /* accepted sockets inherit it */
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
#else
  (void)fd, (void)ms;
#endif
}

void listen_turn_away(int fd) {
#ifdef __linux__
  enum { FLAGS = 13, SYN = 0x02, ACK = 0x10 }; /* the offset of the flags in the TCP header, and two of the flags */
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS),      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN | ACK),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
#else
  (void)fd;
#endif
}

static void describe(const Address *address, Peer *peer) {
  const void *bytes = &address->v4.sin_addr;
  uint32_t v4 = 0;
  *peer = (Peer){.network = 0, .address = "unix:", .is_local = true};
  if (address->any.sa_family == AF_UNIX) return;
  peer->is_local = false;
  if (address->any.sa_family == AF_INET6) {
    bytes = &address->v6.sin6_addr;
    memcpy(&peer->network, bytes, sizeof peer->network);
    peer->is_local = IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    if (IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) memcpy(&v4, (const char *)bytes + 12, sizeof v4);
  } else {
    memcpy(&v4, bytes, sizeof v4);
  }
  if (v4) {
    peer->network = v4;
    peer->is_local = ntohl(v4) >> 24 == 127;
  }
  if (!inet_ntop(address->any.sa_family, bytes, peer->address, ADDRESS_SIZE)) *peer->address = 0;
}

int listen_accept(int fd, Peer *peer) {
  Address address;
  memset(&address, 0, sizeof address);
  socklen_t size = sizeof address;
#ifdef __linux__
  int conn = accept4(fd, &address.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  int conn = accept(fd, &address.any, &size);
  if (conn >= 0) (void)prepare(conn);
#endif
  if (conn < 0) return -1;
  (void)setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  describe(&address, peer);
  return conn;
}
