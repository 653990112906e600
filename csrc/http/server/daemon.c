/* daemon.c: see daemon.h. */
#include "http/server/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How often a system without epoll checks for news of the program, in ms. */
enum { LOOK = 20 };

/* An address of either family. */
typedef union Address {
  struct sockaddr any;    /* its family */
  struct sockaddr_in v4;  /* AF_INET */
  struct sockaddr_in6 v6; /* AF_INET6 */
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

/* Makes a socket listen; false with errno. */
static bool listen_with(int fd, const Address *address, socklen_t size) {
  int yes = 1;
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
         setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 && bind(fd, &address->any, size) == 0 &&
         listen(fd, SOMAXCONN) == 0;
}

int daemon_listen(const char *text, int port, int *actual, char *why, size_t size) {
  Address address;
  socklen_t length = parse(text, port, &address);
  if (!length) {
    (void)snprintf(why, size, "%s is no address: 127.0.0.1, 0.0.0.0 or ::1, for example", text);
    return -1;
  }
  int fd = socket(address.any.sa_family, SOCK_STREAM, 0);
  if (fd < 0 || !listen_with(fd, &address, length) || getsockname(fd, &address.any, &length) != 0) {
    if (errno == EADDRINUSE) (void)snprintf(why, size, "port %d of %s is taken by another program", port, text);
    else (void)snprintf(why, size, "cannot listen on port %d of %s: %s", port, text, strerror(errno));
    if (fd >= 0) (void)close(fd);
    return -1;
  }
  *actual = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
  return fd;
}

unsigned daemon_flags(void) {
  bool has_epoll = MHD_is_feature_supported(MHD_FEATURE_EPOLL) == MHD_YES;
  return MHD_ALLOW_SUSPEND_RESUME | (has_epoll ? MHD_USE_EPOLL : 0);
}

void daemon_wait(struct MHD_Daemon *daemon, const Wakeup *news, int ms, bool is_prompt) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
  if (!info) { /* no epoll on this system */
    /* uncovered: Linux has it */
    (void)MHD_run_wait(daemon, ms < LOOK ? ms : LOOK);
    return;
  }
  MHD_UNSIGNED_LONG_LONG timeout;
  if (is_prompt && MHD_get_timeout(daemon, &timeout) == MHD_YES && timeout < (MHD_UNSIGNED_LONG_LONG)ms)
    ms = (int)timeout;
  struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = wakeup_fd(news), .events = POLLIN}};
  (void)poll(fds, 2, ms);
}

int daemon_socket(struct MHD_Connection *client) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(client, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

void daemon_end_connection(struct MHD_Connection *client) {
  int fd = daemon_socket(client);
  if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
}
