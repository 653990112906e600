/* paste.c: see paste.h. */
#include "host/prompt/paste.h"

#include <stdio.h>

#include "base/bytes.h"

enum { SHOWN_LINES = 2, LEAST_COLUMNS = 40, MARGIN = 20, NOTE = 64 };

/* Turns line ends, which terminals paste as \r, into \n, and removes NULs. Returns the new size. */
static size_t plain_lines(char *text, size_t size) {
  size_t n = 0;
  char before = '\0';
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    bool is_second = c == '\n' && before == '\r';
    if (c != '\0' && !is_second) text[n++] = (char)(c == '\r' ? '\n' : c);
    before = c;
  }
  return n;
}

char *paste_read(int (*next)(void *), void *ud) {
  const size_t end = strlen(PASTE_ENDS);
  Bytes text = {0};
  int byte;
  while ((byte = next(ud)) >= 0) {
    char c = (char)byte;
    if (!bytes_add(&text, &c, 1)) break;
    if (c == '~' && text.to >= end && memcmp(text.start + text.to - end, PASTE_ENDS, end) == 0) {
      text.start[plain_lines(text.start, text.to - end)] = '\0';
      return text.start;
    }
  }
  bytes_free(&text);
  return NULL;
}

/* How many bytes of a line are shown; a character is never split. */
static size_t shown_length(const char *line, size_t length, int columns) {
  size_t most = (size_t)((columns > LEAST_COLUMNS ? columns : LEAST_COLUMNS) - MARGIN), n = most;
  if (length <= most) return length;
  while (n > 0 && ((unsigned char)line[n] & 0xC0) == 0x80) n--;
  return n;
}

char *paste_beginning(const char *text, int columns) {
  size_t room = (size_t)(columns > LEAST_COLUMNS ? columns : LEAST_COLUMNS) * SHOWN_LINES + NOTE, n = 0;
  char *shown = (char *)malloc(room);
  if (!shown) return NULL;
  shown[0] = '\0';
  for (int i = 0; i < SHOWN_LINES && *text; i++) {
    size_t length = strcspn(text, "\n"), part = shown_length(text, length, columns);
    n +=
        (size_t)snprintf(shown + n, room - n, "%s%.*s%s", i > 0 ? "\n" : "", (int)part, text, part < length ? "…" : "");
    text += length + (text[length] == '\n');
  }
  size_t more = *text != '\0';
  for (const char *c = text; *c; c++) more += *c == '\n';
  if (more > 0) (void)snprintf(shown + n, room - n, "\n… %zu more lines", more);
  return shown;
}
