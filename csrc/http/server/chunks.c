/* chunks.c: see chunks.h. */
#include "http/server/chunks.h"

#include "http/server/head.h"

enum {
  SIZE,            /* digits of a size, at least one */
  NAME,            /* the first character of an extension's name, behind blanks */
  NAME_REST,       /* the rest of it */
  NAME_BLANK,      /* blanks behind it: `=` or `;` follows */
  VALUE,           /* the first character of an extension's value, behind blanks */
  VALUE_REST,      /* the rest of a value without quotes */
  VALUE_QUOTED,    /* the rest of a value in quotes */
  VALUE_PAIR,      /* the character behind a backslash in quotes */
  VALUE_END,       /* what is behind the closing quote */
  EXTENSION_BLANK, /* blanks behind a value or the size: `;` follows */
  SIZE_LF,         /* the second half of a line's end */
  DATA,            /* the bytes of the chunk */
  DATA_CR,         /* the end of the line behind them */
  DATA_LF,         /* its second half */
  TRAILER,         /* the first character of a trailer, or of the line that ends the body */
  TRAILER_NAME,    /* the rest of its name */
  TRAILER_VALUE,   /* its value */
  TRAILER_LF,      /* the second half of that line's end */
  LAST_LF,         /* the second half of the last line's end */
  COMPLETE
};

/* The largest number of hexadecimal digits in the size of a chunk. */
enum { MOST_DIGITS = 15 };

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Each of these functions takes a character and returns the next state, or -1 if the character is wrong. */

static int size_digit(Chunks *chunks, char c) {
  int digit = slice_digit(c);
  if (digit < 0) {
    if (!chunks->digits) return -1;
    chunks->digits = 0;
    return c == '\r' ? SIZE_LF : c == ';' ? NAME : is_blank(c) ? EXTENSION_BLANK : -1;
  }
  if (!chunks->digits++) chunks->left = 0;
  chunks->left = chunks->left * 16 + (uint64_t)digit;
  return chunks->left >> 4 * MOST_DIGITS ? -1 : SIZE;
}

/* In or behind an extension's name or its value. */
static int extension_rest(int state, char c) {
  bool is_name = state == NAME_REST || state == NAME_BLANK;
  if (c == '\r' && state != NAME_BLANK && state != EXTENSION_BLANK) return SIZE_LF;
  if (c == ';') return NAME;
  if (c == '=' && is_name) return VALUE;
  if (is_blank(c)) return is_name ? NAME_BLANK : EXTENSION_BLANK;
  return (state == NAME_REST || state == VALUE_REST) && head_is_token((unsigned char)c) ? state : -1;
}

static int extension(Chunks *chunks, int state, char c) {
  if (++chunks->extensions > CHUNKS_EXTENSIONS) return -1;
  bool is_token = head_is_token((unsigned char)c), is_value = head_is_value((unsigned char)c);
  switch (state) {
  case NAME:
    return is_blank(c) ? NAME : is_token ? NAME_REST : -1;
  case VALUE:
    return is_blank(c) ? VALUE : c == '"' ? VALUE_QUOTED : is_token ? VALUE_REST : -1;
  case VALUE_QUOTED:
    return c == '"' ? VALUE_END : c == '\\' ? VALUE_PAIR : is_value ? VALUE_QUOTED : -1;
  case VALUE_PAIR:
    return is_value ? VALUE_QUOTED : -1;
  default:
    return extension_rest(state, c);
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
  case TRAILER:
  case TRAILER_NAME:
  case TRAILER_VALUE:
    return trailer(chunks, state, c);
  default:
    return extension(chunks, state, c);
  }
}

bool chunks_are_complete(const Chunks *chunks) { return chunks->state == COMPLETE; }

ptrdiff_t chunks_parse(Chunks *chunks, const char *bytes, size_t size, Slice *piece, Slice *trailers) {
  size_t at = 0;
  *piece = *trailers = (Slice){bytes, 0};
  while (at < size && chunks->state != COMPLETE) {
    if (chunks->state == DATA) {
      size_t n = size - at < chunks->left ? size - at : (size_t)chunks->left;
      *piece = (Slice){bytes + at, n};
      chunks->left -= n;
      if (!chunks->left) chunks->state = DATA_CR;
      return (ptrdiff_t)(at + n);
    }
    bool is_trailer = chunks->state >= TRAILER && chunks->state <= TRAILER_LF;
    if (is_trailer && !trailers->size) trailers->at = bytes + at;
    trailers->size += is_trailer;
    int next = after(chunks, bytes[at++]);
    if (next < 0) return -1;
    chunks->state = next;
  }
  return (ptrdiff_t)at;
}
