/* utf8.c: see utf8.h. */
#include "websocket/utf8.h"

#include <string.h>

/* The number of bytes from `at` on that are ASCII, counted in steps of eight. */
static size_t ascii(const uint8_t *bytes, size_t at, size_t size) {
  size_t from = at;
  for (uint64_t eight; at + sizeof eight <= size; at += sizeof eight) {
    memcpy(&eight, bytes + at, sizeof eight);
    if (eight & UINT64_C(0x8080808080808080)) break;
  }
  return at - from;
}

/* Begins a character of several bytes; false if no character begins with this byte. */
static bool begin(Utf8 *utf8, uint8_t first) {
  utf8->low = 0x80;
  utf8->high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    utf8->missing = 1;
  } else if (first >= 0xE0 && first <= 0xEF) {
    utf8->missing = 2;
    if (first == 0xE0) utf8->low = 0xA0;
    if (first == 0xED) utf8->high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    utf8->missing = 3;
    if (first == 0xF0) utf8->low = 0x90;
    if (first == 0xF4) utf8->high = 0x8F;
  } else {
    return false;
  }
  return true;
}

bool utf8_add(Utf8 *utf8, const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (utf8->missing == 0) {
      i += ascii(bytes, i, size);
      if (i == size) break;
      if (bytes[i] >= 0x80 && !begin(utf8, bytes[i])) return false;
    } else {
      if (bytes[i] < utf8->low || bytes[i] > utf8->high) return false;
      utf8->low = 0x80;
      utf8->high = 0xBF;
      utf8->missing--;
    }
  }
  return true;
}

bool utf8_is_valid(const char *bytes, size_t size) {
  Utf8 utf8 = {0};
  return utf8_add(&utf8, (const uint8_t *)bytes, size) && utf8_is_complete(&utf8);
}
