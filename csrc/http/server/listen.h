/* listen.h: sockets that listen, and the connections that they accept. Knows no Lua. */
#ifndef RUNNEL_HTTP_LISTEN_H
#define RUNNEL_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Characters of an address, and of the path of a Unix socket, with the zero at their ends. */
enum { ADDRESS_SIZE = 46, PATH_SIZE = sizeof((struct sockaddr_un *)0)->sun_path };

/* Where a server listens. */
typedef struct Place {
  const char *address; /* numeric, IPv4 or IPv6; not used with `fd` and `path` */
  const char *path;    /* of a Unix socket; NULL: none */
  int mode;            /* of that file; -1: as the system makes it */
  int port;            /* 0: any that is free */
  int fd;              /* a listening socket that was passed to the program, or -1 */
  bool shares;         /* other processes may listen on the port at the same time (SO_REUSEPORT) */
} Place;

/* Where a connection comes from. */
typedef struct Peer {
  char address[ADDRESS_SIZE]; /* as text; "unix:" of a Unix socket */
  bool is_local;              /* from this machine, by its loopback address or a Unix socket */
  uint64_t network;           /* the IPv4 address, or the first 64 bits of IPv6: a client may use all the rest */
} Peer;

/* What listens. */
typedef struct Listening {
  int fd;               /* does not block; -1: none */
  int port;             /* 0: it is a Unix socket */
  char path[PATH_SIZE]; /* of a Unix socket */
  bool has_made;        /* it has made that file, which listen_end removes */
} Listening;

/* Begins to listen. fd is -1 on failure, with a message in `why`. A Unix socket to which nobody listens any more is
   replaced. */
Listening listen_at(const Place *place, char *why, size_t size);

/* Closes what listens, and removes the file of its Unix socket, unless that has been replaced. */
void listen_end(Listening *own);

/* Limits how long a client may read nothing while the system holds bytes for it, on a connection, or on all that a
   listening socket accepts from now on; 0: no limit. Then the system drops the bytes and the connection, also one that
   the server has closed before: without a limit it holds them for minutes. Does nothing on systems without this
   feature. */
void listen_limit_unread(int fd, int64_t ms);

/* Makes a socket of a shared port ignore new attempts to connect. The client's system repeats them after a second, and
   another process accepts them. Connections whose TCP handshakes have begun still arrive. Does nothing on systems
   without this feature. */
void listen_turn_away(int fd);

/* Accepts a connection and makes its socket non-blocking. Returns -1, with errno, if none waits. */
int listen_accept(int fd, Peer *peer);

#endif
