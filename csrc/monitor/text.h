/* text.h: a text that grows, and JSON in it. */
#ifndef RUNNEL_MONITOR_TEXT_H
#define RUNNEL_MONITOR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins as zeros. Without memory, what is added is lost, and `failed` is set. */
typedef struct Text {
  char *bytes;   /* the text; not ended by a zero */
  size_t length; /* of the text */
  size_t room;   /* bytes that there is memory for */
  bool failed;   /* there was no memory */
} Text;

void text_clear(Text *text);
void text_free(Text *text);

void text_add(Text *text, const char *bytes, size_t length);
void text_puts(Text *text, const char *string);
void text_integer(Text *text, int64_t i);

/* Adds a string as JSON: in quotes, on one line. Bytes that are no UTF-8 stay as they are. */
void text_json(Text *text, const char *string);

/* 64 bits that stand for a string, and for a string of bytes. */
uint64_t text_hash(const char *string);
uint64_t text_hash_bytes(const void *bytes, size_t length);

#endif
