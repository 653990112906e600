/* picture.c: see picture.h. */
#include "host/prompt/picture.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "host/prompt/utf8.h"

enum { TAB = 8, FIRST_WIDE = 0x80 };

/* ---- places ---- */

/* The columns of a character that is not a newline. */
static int width_of(wchar_t c) {
  int width = c < FIRST_WIDE ? 1 : wcwidth(c);
  return width > 0 ? width : 1;
}

/* Whether a cell begins a new row, since it does not fit behind a place. */
static bool wraps(PicturePlace place, PictureCell cell, int columns) {
  return cell.c != L'\n' && place.column > 0 && place.column + width_of(cell.c) > columns;
}

/* The place behind a cell at this one. */
static PicturePlace behind(PicturePlace place, PictureCell cell, int columns) {
  if (cell.c == L'\n') return (PicturePlace){.row = place.row + 1, .column = 0};
  if (wraps(place, cell, columns)) place = (PicturePlace){.row = place.row + 1, .column = 0};
  place.column += width_of(cell.c);
  return place;
}

/* Where the cursor is seen if its cell is at a place: never behind the last column. */
static PicturePlace seen(const Picture *picture, PicturePlace place, int columns) {
  if (place.column < columns) return place;
  bool is_last = picture->cursor < picture->count && picture->cells[picture->cursor].c == L'\n';
  if (is_last) return (PicturePlace){.row = place.row, .column = columns - 1};
  return (PicturePlace){.row = place.row + 1, .column = 0};
}

/* The cursor's place, relative to the row in which the cell `first` is. */
static PicturePlace cursor_place(const Picture *picture, size_t first, int columns) {
  PicturePlace place = {0};
  for (size_t i = first; i < picture->cursor; i++) place = behind(place, picture->cells[i], columns);
  return seen(picture, place, columns);
}

int picture_row(const Picture *picture, int columns) {
  return cursor_place(picture, picture->first, columns > 0 ? columns : 1).row;
}

int picture_rows(const Picture *picture) { return picture->end.row + 1 + (picture->end.column == picture->columns); }

/* ---- making ---- */

void picture_begin(Picture *picture, int columns) {
  picture->count = picture->cursor = picture->first = 0;
  picture->columns = columns > 0 ? columns : 1;
  picture->end = (PicturePlace){0};
}

static bool add(Picture *picture, wchar_t c, char class) {
  void *cells = grow(picture->cells, &picture->capacity, picture->count + 1, sizeof *picture->cells);
  if (!cells) return false;
  picture->cells = (PictureCell *)cells;
  PictureCell cell = {.c = c, .class = class};
  picture->cells[picture->count++] = cell;
  picture->end = behind(picture->end, cell, picture->columns);
  return true;
}

bool picture_add(Picture *picture, wchar_t c, char class) {
  if (c == L'\t') {
    int n = TAB - picture->end.column % TAB;
    while (n-- > 0) {
      if (!add(picture, L' ', class)) return false;
    }
    return true;
  }
  if (c == L'\n' || (c >= L' ' && c < 127)) return add(picture, c, class);
  if (c < L' ' || c == 127) return add(picture, L'^', class) && add(picture, c ^ 64, class);
  char drawn[UTF8_DRAWN];
  bool is_private = utf8_draw(c, drawn) > 4;
  if (is_private || wcwidth(c) > 0) return add(picture, c, class);
  char text[16];
  (void)snprintf(text, sizeof text, "\\U+%04lX", (unsigned long)c);
  for (const char *at = text; *at; at++) {
    if (!add(picture, (wchar_t)*at, class)) return false;
  }
  return true;
}

void picture_put_cursor(Picture *picture) { picture->cursor = picture->count; }

void picture_free(Picture *picture) {
  free(picture->cells);
  *picture = (Picture){0};
}

/* ---- drawing ---- */

/* The sequence for a class of characters. */
static const char *colour_of(char class) {
  switch (class) {
  case PICTURE_PROMPT:
    return "\033[0;1;32m";
  case PICTURE_KEYWORD:
    return "\033[0;35m";
  case PICTURE_STRING:
    return "\033[0;32m";
  case PICTURE_NUMBER:
    return "\033[0;36m";
  case PICTURE_COMMENT:
    return "\033[0;90m";
  case PICTURE_COMMAND:
    return "\033[0;1m";
  default:
    return "\033[0m";
  }
}

static bool put(Bytes *out, const char *text) { return bytes_add(out, text, strlen(text)); }

/* Chooses the rows to show: those around the cursor. Sets the first cell; returns the first cell that is below. */
static size_t choose(Picture *picture, int rows) {
  int all = picture_rows(picture), columns = picture->columns;
  picture->first = 0;
  if (all <= rows) return picture->count;
  int top = cursor_place(picture, 0, columns).row - rows / 2;
  if (top > all - rows) top = all - rows;
  if (top < 0) top = 0;
  PicturePlace place = {0};
  size_t i = 0;
  for (; i < picture->count; i++) {
    PictureCell cell = picture->cells[i];
    int row = place.row + wraps(place, cell, columns);
    if (row < top) picture->first = i + 1;
    if (row >= top + rows) return i;
    place = behind(place, cell, columns);
  }
  return i;
}

/* Moves the terminal's cursor from one place to another one above it or in the same row. */
static bool move(Bytes *out, PicturePlace from, PicturePlace to) {
  char text[32];
  if (from.row > to.row) {
    (void)snprintf(text, sizeof text, "\033[%dA", from.row - to.row);
    if (!put(out, text)) return false;
  }
  if (!put(out, "\r")) return false;
  (void)snprintf(text, sizeof text, "\033[%dC", to.column);
  return to.column == 0 || put(out, text);
}

bool picture_draw(Picture *picture, int rows, bool colours, Bytes *out) {
  size_t last = choose(picture, rows > 0 ? rows : 1);
  int columns = picture->columns;
  char class = PICTURE_PLAIN;
  PicturePlace place = {0};
  bool is_good = true;
  for (size_t i = picture->first; i < last && is_good; i++) {
    PictureCell cell = picture->cells[i];
    bool is_end = cell.c == L'\n';
    if (is_end && i + 1 == last && last < picture->count) break; /* the last row of the screen */
    /* in a full row this would erase the last character */
    if ((is_end || wraps(place, cell, columns)) && place.column < columns) is_good = put(out, "\033[K");
    if (is_end) {
      is_good = is_good && put(out, "\r\n");
    } else {
      if (colours && cell.class != class) is_good = is_good && put(out, colour_of(class = cell.class));
      char drawn[UTF8_DRAWN];
      is_good = is_good && bytes_add(out, drawn, utf8_draw(cell.c, drawn));
    }
    place = behind(place, cell, columns);
  }
  if (class != PICTURE_PLAIN) is_good = is_good && put(out, colour_of(PICTURE_PLAIN));
  if (last == picture->count && place.column == columns) { /* makes the terminal begin the next row */
    is_good = is_good && put(out, " \r");
    place = (PicturePlace){.row = place.row + 1, .column = 0};
  }
  if (place.column < columns) is_good = is_good && put(out, "\033[J");
  return is_good && move(out, place, cursor_place(picture, picture->first, columns));
}
