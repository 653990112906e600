/* utf8.h: UTF-8 and wide characters, without loss: a byte that is no UTF-8 becomes the character U+DC80 + (byte -
   0x80), of which the byte is made again. A character that combines with the one before it becomes a private one, which has a
   column of its own. */
#ifndef RUNNEL_HOST_UTF8_H
#define RUNNEL_HOST_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { UTF8_END = -1 };

/* Reads characters byte by byte. All zero at first. */
typedef struct Utf8Reader {
  unsigned char held[4]; /* bytes that were read and turned out to belong to no character with those before them */
  int count;             /* how many */
} Utf8Reader;

/* The next character, or UTF8_END when `next` returns a negative number. */
int32_t utf8_read(Utf8Reader *reader, int (*next)(void *), void *ud);

/* How a private character that stands for a combining one is drawn: on a dotted circle. The bytes of the character ->
   those to draw, at most 8, and how many; 0 for any other character. */
size_t utf8_drawn(const char *bytes, size_t count, char drawn[8]);

/* A text as wide characters, and wide characters as a text; to be freed. NULL where memory runs out. */
wchar_t *utf8_to_wide(const char *text);
char *utf8_from_wide(const wchar_t *wide, size_t length);

#endif
