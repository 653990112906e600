/* text.c: see text.h. */
#include "monitor/text.h"

#include <inttypes.h>
#include <stdio.h>

void text_clear(Text *text) {
  bytes_clear(&text->bytes);
  text->failed = false;
}

void text_free(Text *text) {
  bytes_free(&text->bytes);
  text->failed = false;
}

void text_add(Text *text, const char *bytes, size_t length) {
  if (!text->failed && !bytes_add(&text->bytes, bytes, length)) text->failed = true;
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
