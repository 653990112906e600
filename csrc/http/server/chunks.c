/* chunks.c: see chunks.h. */
#include "http/server/chunks.h"

#include "http/server/head.h"

enum {
  SIZE,             /* digits of a size, at least one */
  EXTENSION_NAME,   /* the first character of an extension's name, behind blanks */
  EXTENSION,        /* the rest of it */
  EXTENSION_QUOTED, /* the part of an extension in quotes */
  EXTENSION_PAIR,   /* the character behind a backslash in quotes */
  SIZE_LF,          /* the second half of a line's end */
  DATA,             /* the bytes of the chunk */
  DATA_CR,          /* the end of the line behind them */
  DATA_LF,          /* its second half */
  TRAILER,          /* the first character of a trailer, or of the line that ends the body */
  TRAILER_NAME,     /* the rest of its name */
  TRAILER_VALUE,    /* its value */
  TRAILER_LF,       /* the second half of that line's end */
  LAST_LF,          /* the second half of the last line's end */
  COMPLETE
};

/* The largest number of hexadecimal digits in the size of a chunk. */
enum { MOST_DIGITS = 15 };

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  int letter = c | 32;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Each of these functions takes a character and returns the next state, or -1 if the character is wrong. */

static int size_digit(Chunks *chunks, char c) {
  int digit = digit_of(c);
  if (digit < 0) {
    if (!chunks->digits) return -1;
    chunks->digits = 0;
    return c == '\r' ? SIZE_LF : c == ';' ? EXTENSION_NAME : -1;
  }
  if (!chunks->digits++) chunks->left = 0;
  chunks->left = chunks->left * 16 + (uint64_t)digit;
  return chunks->left >> 4 * MOST_DIGITS ? -1 : SIZE;
}

static int extension(Chunks *chunks, int state, char c) {
  if (state == EXTENSION && c == '\r') return SIZE_LF;
  if (!head_is_value((unsigned char)c) || ++chunks->extensions > CHUNKS_EXTENSIONS) return -1;
  switch (state) {
  case EXTENSION_NAME:
    return c == ' ' || c == '\t' ? EXTENSION_NAME : head_is_token((unsigned char)c) ? EXTENSION : -1;
  case EXTENSION_QUOTED:
    return c == '"' ? EXTENSION : c == '\\' ? EXTENSION_PAIR : EXTENSION_QUOTED;
  case EXTENSION_PAIR:
    return EXTENSION_QUOTED;
  default:
    return c == ';' ? EXTENSION_NAME : c == '"' ? EXTENSION_QUOTED : EXTENSION;
  }
}

static int trailer(Chunks *chunks, int state, char c) {
  if (++chunks->trailers > CHUNKS_TRAILERS) return -1;
  if (state == TRAILER_VALUE) return c == '\r' ? TRAILER_LF : head_is_value((unsigned char)c) ? TRAILER_VALUE : -1;
  if (state == TRAILER && c == '\r') return LAST_LF;
  if (state == TRAILER_NAME && c == ':') return TRAILER_VALUE;
  return head_is_token((unsigned char)c) ? TRAILER_NAME : -1;
}

static int after(Chunks *chunks, char c) {
  int state = chunks->state;
  switch (state) {
  case SIZE:
    return size_digit(chunks, c);
  case EXTENSION_NAME:
  case EXTENSION:
  case EXTENSION_QUOTED:
  case EXTENSION_PAIR:
    return extension(chunks, state, c);
  case SIZE_LF:
    return c != '\n' ? -1 : chunks->left ? DATA : TRAILER;
  case DATA_CR:
    return c == '\r' ? DATA_LF : -1;
  case DATA_LF:
    return c == '\n' ? SIZE : -1;
  case TRAILER_LF:
    return c == '\n' ? TRAILER : -1;
  case LAST_LF:
    return c == '\n' ? COMPLETE : -1;
  default:
    return trailer(chunks, state, c);
  }
}

bool chunks_are_complete(const Chunks *chunks) { return chunks->state == COMPLETE; }

ptrdiff_t chunks_parse(Chunks *chunks, const char *bytes, size_t size, Slice *piece) {
  size_t at = 0;
  *piece = (Slice){bytes, 0};
  while (at < size && chunks->state != COMPLETE) {
    if (chunks->state == DATA) {
      size_t n = size - at < chunks->left ? size - at : (size_t)chunks->left;
      *piece = (Slice){bytes + at, n};
      chunks->left -= n;
      if (!chunks->left) chunks->state = DATA_CR;
      return (ptrdiff_t)(at + n);
    }
    int next = after(chunks, bytes[at++]);
    if (next < 0) return -1;
    chunks->state = next;
  }
  return (ptrdiff_t)at;
}
