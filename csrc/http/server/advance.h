/* advance.h: moves a connection (conn.h) on: does what is possible now, and decides what to wait for. */
#ifndef RUNNEL_HTTP_ADVANCE_H
#define RUNNEL_HTTP_ADVANCE_H

#include "http/server/conn.h"

/* Its socket is ready. */
void advance_event(Conn *conn, unsigned bits);

/* Its timer has fired. */
void advance_timer(Conn *conn);

/* Makes it ask its user again: for room for a body, or the next bytes of a response. */
void advance(Conn *conn);

#endif
