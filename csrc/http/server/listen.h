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
  int fd;              /* a socket that the program was given, or -1 */
  bool shares;         /* other processes may listen on the port at the same time (SO_REUSEPORT) */
} Place;

/* Where a connection comes from. */
typedef struct Peer {
  char address[ADDRESS_SIZE]; /* as text */
  bool is_local;              /* from this machine, by its loopback address */
  uint64_t network;           /* the address; of an IPv6 address, the first half: whoever has one has all of them */
} Peer;

/* A socket that listens without blocking; -1 on failure, with a message in `why`. *port is its port. */
int listen_at(const Place *place, int *port, char *why, size_t size);

/* Makes a socket of a shared port ignore attempts to connect, which are made again after a second: then another process
   accepts them. Connections that it has begun to accept still arrive. Where the system cannot, does nothing. */
void listen_turn_away(int fd);

/* Accepts a connection, which does not block; -1, with errno, if there is none. */
int listen_accept(int fd, Peer *peer);

#endif
