/* drawing.h: the edited line on the screen: drawn after each key, hidden while there is output, and drawn anew when the
   size of the screen changes. */
#ifndef RUNNEL_HOST_DRAWING_H
#define RUNNEL_HOST_DRAWING_H

#include <stdbool.h>
#include <stdint.h>

#include "host/prompt/editing.h"

/* How long the size of the screen must be unchanged before the line is drawn again. A terminal that is being resized by
   hand wraps the line anew many times a second, and tmux gives programs the new size up to 250 ms later. */
enum { DRAWING_SETTLE_MS = 300 };

/* Prepares for drawing the lines of an editor, and installs handlers of signals. */
void drawing_open(Editing *ed);

/* Moves the cursor to the beginning of a row, where it may not be after the echo of text typed ahead, or the output of
   another process. */
void drawing_begin_row(void);

/* Writes a text, such as a sequence for the terminal. */
void drawing_write(const char *text);

/* Draws the line over what is on the screen of it. */
void drawing_draw(Editing *ed);

/* Draws the line, unless it is on the screen. */
void drawing_show(Editing *ed);

/* Draws the line with the cursor behind it, and leaves it on the screen. Then writes a text. */
void drawing_leave(Editing *ed, const char *text);

/* Whether the line must not be drawn yet: the size of the screen is changing. */
bool drawing_is_settling(const Editing *ed);

/* Called whenever go blocks have run: `ud` is the Editing. */
void drawing_redraw(void *ud, bool busy);

#endif
