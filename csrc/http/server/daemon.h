/* daemon.h: shared by the project's servers: a listening socket, and the wait of a daemon of libmicrohttpd. Knows no
   Lua. */
#ifndef RUNNEL_HTTPD_DAEMON_H
#define RUNNEL_HTTPD_DAEMON_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/wakeup.h"

/* A socket that listens on a port of a numeric address, IPv4 or IPv6, or on any free port if that is 0; -1 on failure,
   with a message in `why`. *actual is the port. */
int daemon_listen(const char *text, int port, int *actual, char *why, size_t size);

/* The flags for a daemon that daemon_wait runs. */
unsigned daemon_flags(void);

/* Waits for a client or `news`, for at most `ms`. If `is_prompt`, no longer than libmicrohttpd asks for, which knows of
   its postponed work. */
void daemon_wait(struct MHD_Daemon *daemon, const Wakeup *news, int ms, bool is_prompt);

/* The socket of a connection, or -1. */
int daemon_socket(struct MHD_Connection *client);

/* Ends a connection: libmicrohttpd sees the end of the stream, and closes it. */
void daemon_end_connection(struct MHD_Connection *client);

#endif
