/* utf8.c: see utf8.h. */
#include "host/prompt/utf8.h"

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

/* The character that a private one stands for; any other stays. */
static uint32_t own(wchar_t c) {
  return c > PRIVATE && combines((int32_t)c - PRIVATE) ? (uint32_t)c - PRIVATE : (uint32_t)c;
}

/* Writes the bytes of a character, at most 4; returns how many. */
static size_t encode(uint32_t c, char *out) {
  size_t n = c < 0x80 || (c >= 0xDC80 && c <= 0xDCFF) ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  if (n == 1) {
    out[0] = (char)(c < 0x80 ? c : c - 0xDC00);
    return 1;
  }
  for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
  static const unsigned lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  out[0] = (char)(lead[n] | c);
  return n;
}

size_t utf8_size(wchar_t c) {
  char bytes[4];
  return encode(own(c), bytes);
}

size_t utf8_draw(wchar_t c, char drawn[UTF8_DRAWN]) {
  static const char circle[] = {'\xE2', '\x97', '\x8C'};
  size_t n = 0;
  if (own(c) != (uint32_t)c) memcpy(drawn, circle, n = sizeof circle);
  return n + encode(own(c), drawn + n);
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
  for (size_t i = 0; i < length; i++) out += encode(own(wide[i]), out);
  *out = '\0';
  return text;
}
