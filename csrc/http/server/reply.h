/* reply.h: the head of a response. */
#ifndef RUNNEL_HTTP_REPLY_H
#define RUNNEL_HTTP_REPLY_H

#include <stdint.h>
#include <time.h>

#include "base/bytes.h"

/* The text of the header Date, made once a second. Begins as zeros. For one thread. */
typedef struct ReplyDate {
  time_t second; /* the time of `text` */
  char text[32]; /* "Sun, 06 Nov 1994 08:49:37 GMT" */
} ReplyDate;

/* A head that is being written. */
typedef struct Reply {
  Bytes bytes;     /* what was written so far */
  unsigned status; /* of the response */
  bool failed;     /* there was not enough memory: a part is missing */
} Reply;

/* Writes the status line, and the header Date if `date` is not NULL. */
void reply_begin(Reply *reply, unsigned status, ReplyDate *date);

/* Adds bytes as they are. */
void reply_add(Reply *reply, const char *bytes, size_t size);

/* Adds a header. reply_is_field must hold for its name and value. */
void reply_field(Reply *reply, const char *name, const char *value);
void reply_length(Reply *reply, uint64_t length);

/* Ends the head. */
void reply_end(Reply *reply);

/* Whether a header may have this name and value. */
bool reply_is_field(const char *name, const char *value);

#endif
