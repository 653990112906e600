/* accept.h: the value with which a server shows that it has understood the client's WebSocket handshake.

   It is made with SHA-1, as a checksum: nothing secret depends on it. SHA-1 is implemented here, so that the module
   needs no library for cryptography. */
#ifndef RUNNEL_WEBSOCKET_ACCEPT_H
#define RUNNEL_WEBSOCKET_ACCEPT_H

#include <stddef.h>
#include <stdint.h>

enum {
  KEY_SIZE = 24,   /* characters of Sec-WebSocket-Key: 16 bytes in base64 */
  ACCEPT_SIZE = 28 /* characters of Sec-WebSocket-Accept: 20 bytes in base64 */
};

/* Writes bytes in base64, 4 characters for each 3 bytes or fewer, without a zero at the end. */
void base64_encode(const uint8_t *bytes, size_t size, char *to);

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key. */
void accept_value(const char key[KEY_SIZE], char value[ACCEPT_SIZE]);

#endif
