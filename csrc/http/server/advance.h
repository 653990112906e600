/* advance.h: does all that is possible now on a connection (conn.h), and decides what to wait for. */
#ifndef RUNNEL_HTTP_ADVANCE_H
#define RUNNEL_HTTP_ADVANCE_H

#include "http/server/conn.h"

/* Call it when the socket is ready. */
void advance_event(Conn *conn, unsigned bits);

/* Call it when the timer has fired. */
void advance_timer(Conn *conn);

/* Makes the connection call its user again: to pass on bytes of a body, or to get the next bytes of a response. */
void advance(Conn *conn);

#endif
