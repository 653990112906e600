/* utf8.h: converts between UTF-8 and wide characters without loss. A byte that is not UTF-8 becomes the character
   U+DC80 + (byte - 0x80), and back. A character that combines with the one before it becomes a private character,
   which takes a column. */
#ifndef RUNNEL_HOST_UTF8_H
#define RUNNEL_HOST_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { UTF8_END = -1, UTF8_DRAWN = 8 };

/* The state of reading characters byte by byte; initially zero. */
typedef struct Utf8Reader {
  unsigned char held[4]; /* bytes that were read but do not belong to the character before them */
  int count;             /* how many */
} Utf8Reader;

/* The next character, or UTF8_END if `next` returns a negative number. */
int32_t utf8_read(Utf8Reader *reader, int (*next)(void *), void *ud);

/* How many bytes a character has in a text of utf8_from_wide. */
size_t utf8_size(wchar_t c);

/* Gets the bytes that draw a character: of a private one, its combining character on a dotted circle. Returns how many,
   at most UTF8_DRAWN. */
size_t utf8_draw(wchar_t c, char drawn[UTF8_DRAWN]);

/* Convert a text to wide characters and back. The caller frees the result, which is NULL if memory runs out. */
wchar_t *utf8_to_wide(const char *text);
char *utf8_from_wide(const wchar_t *wide, size_t length);

#endif
