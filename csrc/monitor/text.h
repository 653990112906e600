/* text.h: a text that grows, and JSON in it. */
#ifndef RUNNEL_MONITOR_TEXT_H
#define RUNNEL_MONITOR_TEXT_H

#include <stdint.h>

#include "base/bytes.h"

/* Begins as zeros. */
typedef struct Text {
  Bytes bytes; /* the text; not ended by a zero */
  bool failed; /* no memory for a part: that part and later ones are missing */
} Text;

static inline size_t text_length(const Text *text) { return bytes_length(&text->bytes); }

/* Makes it empty, and keeps the memory; frees the memory. */
void text_clear(Text *text);
void text_free(Text *text);

/* Each adds something. */
void text_add(Text *text, const char *bytes, size_t length);
void text_puts(Text *text, const char *string);
void text_integer(Text *text, int64_t i);

/* Adds another text. */
static inline void text_append(Text *to, const Text *text) {
  text_add(to, bytes_first(&text->bytes), text_length(text));
}

/* Adds a string as JSON: in quotes, on one line. Bytes that are no UTF-8 stay as they are. */
void text_json(Text *text, const char *string);

#endif
