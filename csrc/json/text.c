/* json/text.c: floats and UTF-8. The C library reads and writes floats with the decimal point of the locale, which a
   program may change: what it reads here has no point, and in what it has written the point is replaced. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"

/* The byte after the character of several bytes at `p`, or NULL if it is none. */
static const unsigned char *after_character(const unsigned char *p) {
  unsigned first = *p, second = p[1];
  if (first < 0xC2 || first > 0xF4) return NULL;
  /* Neither more bytes than necessary, nor halves of surrogate pairs, nor more than U+10FFFF. */
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return NULL;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return NULL;
  int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  for (int i = 1; i <= more; i++)
    if ((p[i] & 0xC0) != 0x80) return NULL;
  return p + more + 1;
}

const char *json_not_utf8(const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text, *end = p + n;
  while (p < end) {
    uint64_t eight;
    if (end - p >= 8 && (memcpy(&eight, p, 8), !(eight & UINT64_C(0x8080808080808080)))) p += 8;
    else if (*p < 0x80) p++;
    else {
      const unsigned char *after = after_character(p);
      if (!after) return (const char *)p;
      p = after;
    }
  }
  return NULL;
}

/* The powers of ten that are exact. */
static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { MOST_TENS = sizeof tens / sizeof *tens - 1, EXACT_DIGITS = 15 };

/* Whether a division or multiplication of exact numbers gives the nearest float: it may not where more bits are used. */
static const bool is_exact = FLT_EVAL_METHOD == 0 && DBL_MANT_DIG == 53;

void json_push_float(lua_State *L, const char *text, const char *end, uint64_t digits, size_t nfraction,
                     long exponent) {
  exponent -= (long)nfraction;
  if (is_exact && digits <= UINT64_C(1) << 53 && labs(exponent) <= MOST_TENS) {
    double value = exponent < 0 ? (double)digits / tens[-exponent] : (double)digits * tens[exponent];
    lua_pushnumber(L, *text == '-' ? -value : value);
    return;
  }
  char some[JSON_NUMBER_SIZE];
  size_t size = (size_t)(end - text) + 32;
  char *copy = size <= sizeof some ? some : lua_newuserdatauv(L, size, 0), *p = copy;
  for (; text < end && (*text | 32) != 'e'; text++)
    if (*text != '.') *p++ = *text;
  snprintf(p, 32, "e%ld", exponent);
  lua_pushnumber(L, (lua_Number)strtod(copy, NULL));
  if (copy != some) lua_remove(L, -2);
}

/* Writes a float that is not negative, if it has at most EXACT_DIGITS digits, and no exponent. Returns its end, or NULL. */
static char *write_short(char *to, double value) {
  if (!is_exact || (value < 1e-4 && value != 0)) return NULL;
  int places = 0;
  uint64_t digits;
  do {
    double scaled = value * tens[places];
    if (scaled >= 1e15) return NULL;
    digits = (uint64_t)(scaled + 0.5);
  } while ((double)digits / tens[places++] != value); /* these digits are read so */
  char reversed[JSON_NUMBER_SIZE];
  int n = 0, point = places > 1 ? places - 1 : (reversed[n++] = '0', 1);
  for (; digits || n <= point + 1; digits /= 10) {
    if (n == point) reversed[n++] = '.';
    reversed[n++] = (char)('0' + digits % 10);
  }
  while (n) *to++ = reversed[--n];
  return to;
}

/* At a power of two the next float below is nearer than the next one above. So of the decimal numbers of so many digits
   the nearest may be read as another float, and the one after it as this float. Whether it is; `text` is that number. */
static bool is_next(char *text, int digits, double value) {
  int exponent;
  if (frexp(value, &exponent) != 0.5) return false;
  snprintf(text, JSON_NUMBER_SIZE, "%#.*g", digits, value);
  char *last = text + strcspn(text, "e") - 1;
  if (*last < '0' || *last > '8') return false;
  ++*last;
  return strtod(text, NULL) == value;
}

size_t json_write_float(char *to, lua_Number value) {
  double size = fabs((double)value);
  char text[JSON_NUMBER_SIZE], *p = to, *end;
  if (signbit(value)) *p++ = '-';
  if ((end = write_short(p, size))) return (size_t)(end - to);
  for (int digits = size < DBL_MIN ? 1 : EXACT_DIGITS;; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, size);
    if (digits >= DBL_DECIMAL_DIG || strtod(text, NULL) == size || is_next(text, digits, size)) break;
  }
  char *first = p;
  for (const char *from = text; *from; from++) {
    if (strchr("0123456789e+-", *from)) *p++ = *from;
    else if (p[-1] != '.') *p++ = '.'; /* the decimal point of the locale may have several bytes */
  }
  if (!memchr(first, '.', (size_t)(p - first)) && !memchr(first, 'e', (size_t)(p - first))) {
    *p++ = '.';
    *p++ = '0';
  }
  return (size_t)(p - to);
}
