/* input.h: parses the bytes that a client sends on a connection (conn.h), and passes heads and bodies to the user. */
#ifndef RUNNEL_HTTP_INPUT_H
#define RUNNEL_HTTP_INPUT_H

#include "http/server/conn.h"

/* Whether to read from the socket: within a body, only once the user has taken all earlier bytes. */
bool input_is_wanted(const Conn *conn);

/* Uses the bytes in conn->in, as far as the phase and the user allow. This and the next function may close the
   connection. */
void input_take(Conn *conn);

/* Receives bytes, and uses them. */
void input_receive(Conn *conn);

#endif
