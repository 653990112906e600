/* utf8.c: see utf8.h. */
#include "host/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The number of bytes in a character that begins with this byte; 1 if no character does. */
static int length_of(int lead) {
  return lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? lead < 0xF0 ? 3 : 1 : lead >= 0xC2 ? 2 : 1;
}

/* The character that `n` bytes encode; -1 if they are an overlong form, a surrogate, or too large. */
static int32_t decode(const unsigned char *bytes, int n) {
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  int32_t c = n == 1 ? bytes[0] : bytes[0] & (0x7F >> n);
  if (n == 1) return c < 0x80 ? c : -1;
  for (int i = 1; i < n; i++) c = c << 6 | (bytes[i] & 0x3F);
  return c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? -1 : c;
}

/* A private character is PRIVATE + its combining character. */
enum { PRIVATE = 0xF0000, FIRST_COMBINING = 0x300, LAST_COMBINING = 0xFFFF };

static bool combines(int32_t c) { return c >= FIRST_COMBINING && c <= LAST_COMBINING && wcwidth((wchar_t)c) == 0; }

int32_t utf8_read(Utf8Reader *reader, int (*next)(void *), void *ud) {
  if (reader->count == 0) {
    int byte = next(ud);
    if (byte < 0) return UTF8_END;
    reader->held[reader->count++] = (unsigned char)byte;
  }
  int length = length_of(reader->held[0]), have = 1;
  while (have < length) { /* then no more is held: a character's first byte ends what is read before it */
    int byte = next(ud);
    if (byte < 0) break;
    reader->held[reader->count++] = (unsigned char)byte;
    if ((byte & 0xC0) != 0x80) break;
    have++;
  }
  int32_t c = have == length ? decode(reader->held, length) : -1;
  if (c > PRIVATE && combines(c - PRIVATE)) c = -1; /* a private character in the input: reads its bytes one by one */
  int used = c < 0 ? 1 : length;
  if (c < 0) c = 0xDC00 + reader->held[0];
  else if (combines(c)) c += PRIVATE;
  reader->count -= used;
  memmove(reader->held, reader->held + used, (size_t)reader->count);
  return c;
}

size_t utf8_drawn(const char *bytes, size_t count, char drawn[8]) {
  if (count != 4) return 0;
  int32_t c = decode((const unsigned char *)bytes, 4) - PRIVATE;
  if (!combines(c)) return 0;
  static const char circle[] = {'\xE2', '\x97', '\x8C'};
  size_t n = sizeof circle;
  memcpy(drawn, circle, n);
  if (c >= 0x800) drawn[n++] = (char)(0xE0 | c >> 12);
  drawn[n++] = (char)(c >= 0x800 ? 0x80 | (c >> 6 & 0x3F) : 0xC0 | c >> 6);
  drawn[n++] = (char)(0x80 | (c & 0x3F));
  return n;
}

/* `ud` is where the pointer to the next byte is. */
static int next_of_text(void *ud) {
  const char **at = (const char **)ud;
  return **at ? (unsigned char)*(*at)++ : -1;
}

wchar_t *utf8_to_wide(const char *text) {
  wchar_t *wide = (wchar_t *)malloc((strlen(text) + 1) * sizeof *wide);
  if (!wide) return NULL;
  Utf8Reader reader = {.count = 0};
  size_t n = 0;
  int32_t c;
  while ((c = utf8_read(&reader, next_of_text, (void *)&text)) != UTF8_END) wide[n++] = (wchar_t)c;
  wide[n] = L'\0';
  return wide;
}

char *utf8_from_wide(const wchar_t *wide, size_t length) {
  char *text = (char *)malloc(length * 4 + 1), *out = text;
  if (!text) return NULL;
  for (size_t i = 0; i < length; i++) {
    uint32_t c = (uint32_t)wide[i];
    if (c > PRIVATE && combines((int32_t)c - PRIVATE)) c -= PRIVATE;
    if (c >= 0xDC80 && c <= 0xDCFF) {
      *out++ = (char)(c - 0xDC00);
    } else if (c < 0x80) {
      *out++ = (char)c;
    } else if (c < 0x800) {
      *out++ = (char)(0xC0 | c >> 6);
      *out++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      *out++ = (char)(0xE0 | c >> 12);
      *out++ = (char)(0x80 | (c >> 6 & 0x3F));
      *out++ = (char)(0x80 | (c & 0x3F));
    } else {
      *out++ = (char)(0xF0 | c >> 18);
      *out++ = (char)(0x80 | (c >> 12 & 0x3F));
      *out++ = (char)(0x80 | (c >> 6 & 0x3F));
      *out++ = (char)(0x80 | (c & 0x3F));
    }
  }
  *out = '\0';
  return text;
}
