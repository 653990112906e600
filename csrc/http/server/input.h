/* input.h: what a client sends on a connection (conn.h): makes heads and bodies of the bytes, and gives them to the user. */
#ifndef RUNNEL_HTTP_INPUT_H
#define RUNNEL_HTTP_INPUT_H

#include "http/server/conn.h"

/* Whether bytes are wanted: in a body, only once the user has taken those before. */
bool input_is_wanted(const Conn *conn);

/* Takes what waits in conn->in, as far as the phase and the user allow. This and the next one may close the connection. */
void input_take(Conn *conn);

/* Receives bytes, and takes them. */
void input_receive(Conn *conn);

#endif
