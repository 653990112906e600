/* head.h: the head of a request, its first line and headers, by RFC 9112 and 9110. Knows no sockets, allocates nothing.

   The parser is always strict: it refuses requests that two programs could read in two ways, because a proxy in front
   of the server could read them in the other way. */
#ifndef RUNNEL_HTTP_HEAD_H
#define RUNNEL_HTTP_HEAD_H

#include <stdint.h>

#include "http/server/slice.h"

/* The most headers of a request. */
enum { HEAD_FIELDS = 100 };

typedef struct Field {
  Slice name;  /* a token */
  Slice value; /* without spaces around it, control characters and zero bytes */
} Field;

typedef struct Head {
  Slice method;              /* a token */
  Slice target;              /* as it was sent: "/path?query", "http://host/path", or "*" */
  uint64_t length;           /* bytes of the body, by Content-Length; 0 without one */
  bool is_chunked;           /* the body comes in chunks */
  bool is_old;               /* HTTP/1.0 */
  bool is_head;              /* the method is HEAD */
  bool keeps;                /* the client lets the connection stay open */
  bool expects;              /* the client waits for a status of 100 before it sends the body */
  bool upgrades;             /* the client offers another protocol for the connection */
  size_t nfields;            /* headers */
  Field fields[HEAD_FIELDS]; /* in their order */
} Head;

/* Characters of tokens, such as names of headers; and of values of headers. */
bool head_is_token(unsigned char c);
bool head_is_value(unsigned char c);

/* Looks for the end of a head in the first bytes of a request. Returns the size of the head with its empty line, 0 if
   more bytes are needed, or minus a status: 400; or, if it is longer than `max`, 414 if already its first line is, and
   else 431. *seen is 0 at first; between calls it holds how many bytes were read. `max` is at least 2. */
ptrdiff_t head_find(const char *bytes, size_t size, size_t max, size_t *seen);

/* Reads a whole head; `size` is the result of head_find. Returns 0, or the status for the client. */
int head_read(Head *head, const char *bytes, size_t size);

#endif
