/* listen.h: sockets that listen, and the connections that they accept. Knows no Lua. */
#ifndef RUNNEL_HTTP_LISTEN_H
#define RUNNEL_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Characters of an address. */
enum { ADDRESS_SIZE = 46 };

/* Where a server listens. */
typedef struct Place {
  const char *address; /* numeric, IPv4 or IPv6; not used with `fd` */
  int port;            /* 0: any that is free */
  int fd;              /* a listening socket that was passed to the program, or -1 */
  bool shares;         /* other processes may listen on the port at the same time (SO_REUSEPORT) */
} Place;

/* Where a connection comes from. */
typedef struct Peer {
  char address[ADDRESS_SIZE]; /* as text */
  bool is_local;              /* from this machine, by its loopback address */
  uint64_t network;           /* the IPv4 address, or the first 64 bits of IPv6: a client may use all the rest */
} Peer;

/* A socket that listens without blocking; -1 on failure, with a message in `why`. *port is its port. */
int listen_at(const Place *place, int *port, char *why, size_t size);

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
