/* picture.h: what the edited line looks like on the screen: characters with colours, in rows.

   A row that is full continues in the next one without a newline, so that the terminal wraps the line anew when its
   width changes. A picture that is higher than the screen shows the rows around the cursor. */
#ifndef RUNNEL_HOST_PICTURE_H
#define RUNNEL_HOST_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

#include "base/bytes.h"

/* The classes of characters that have a colour; every other one is plain. */
enum {
  PICTURE_PROMPT = 'p',
  PICTURE_KEYWORD = 'k',
  PICTURE_STRING = 's',
  PICTURE_NUMBER = 'n',
  PICTURE_COMMENT = 'c',
  PICTURE_COMMAND = 'C',
  PICTURE_PLAIN = ' '
};

/* A character on the screen, or the end of a row. */
typedef struct PictureCell {
  wchar_t c;  /* a character that takes one or two columns; or a newline */
  char class; /* one of the above */
} PictureCell;

/* A position on the screen. */
typedef struct PicturePlace {
  int row;    /* below the first one of the picture */
  int column; /* as many as the screen has: the row is full, and the next character begins a row */
} PicturePlace;

/* All zeros is an empty picture. */
typedef struct Picture {
  PictureCell *cells; /* from malloc */
  size_t count;       /* of cells */
  size_t capacity;    /* of the memory, in cells */
  size_t cursor;      /* the cell that is under the cursor; `count`: behind the last one */
  size_t first;       /* the first cell that picture_draw has drawn */
  int columns;        /* of the screen */
  PicturePlace end;   /* where the next cell will be */
} Picture;

/* Makes a picture empty, for a screen of that width. */
void picture_begin(Picture *picture, int columns);

/* Adds a character: a tab as blanks, a control character as ^A, an unprintable one as \U+E000. False if memory runs
   out. */
bool picture_add(Picture *picture, wchar_t c, char class);

/* Puts the cursor behind what was added so far. */
void picture_put_cursor(Picture *picture);

/* The row of the cursor below the first row that was drawn, on a screen of another width, too. */
int picture_row(const Picture *picture, int columns);

/* How many rows the picture has. */
int picture_rows(const Picture *picture);

/* Adds to `out` what draws the picture on a screen with that many rows. The terminal's cursor must be at the beginning
   of the first row, and is then where the picture's is. Rows below it are erased. False if memory runs out. */
bool picture_draw(Picture *picture, int rows, bool colours, Bytes *out);

/* Frees the memory. */
void picture_free(Picture *picture);

#endif
