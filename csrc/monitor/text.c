/* text.c: see text.h. */
#include "monitor/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_clear(Text *text) {
  text->length = 0;
  text->failed = false;
}

void text_free(Text *text) {
  free(text->bytes);
  *text = (Text){0};
}

void text_add(Text *text, const char *bytes, size_t length) {
  if (text->failed || !length) return;
  if (text->room - text->length < length) {
    size_t room = (text->length + length) * 2;
    char *more = realloc(text->bytes, room);
    if (!more) {
      text->failed = true; /* uncovered: only when memory runs out */
      return;
    }
    text->bytes = more;
    text->room = room;
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
}

void text_puts(Text *text, const char *string) { text_add(text, string, strlen(string)); }

void text_integer(Text *text, int64_t i) {
  char digits[32];
  int n = snprintf(digits, sizeof digits, "%" PRId64, i);
  text_add(text, digits, (size_t)n);
}

void text_json(Text *text, const char *string) {
  text_add(text, "\"", 1);
  const char *from = string;
  for (const char *at = string; *at; at++) {
    unsigned char c = (unsigned char)*at;
    if (c >= ' ' && c != '"' && c != '\\') continue;
    text_add(text, from, (size_t)(at - from));
    char escape[8];
    int n = snprintf(escape, sizeof escape, "\\u%04x", c);
    text_add(text, escape, (size_t)n);
    from = at + 1;
  }
  text_puts(text, from);
  text_add(text, "\"", 1);
}

uint64_t text_hash_bytes(const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  uint64_t h = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; i++) h = (h ^ at[i]) * UINT64_C(1099511628211);
  h ^= h >> 32;
  return h * UINT64_C(0x9E3779B97F4A7C15);
}

uint64_t text_hash(const char *string) { return text_hash_bytes(string, strlen(string)); }
