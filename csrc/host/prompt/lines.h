/* lines.h: reading a line without an editor; the result is the same as the editor's. */
#ifndef RUNNEL_HOST_LINES_H
#define RUNNEL_HOST_LINES_H

#include <lua.h>
#include <stdbool.h>

/* The end of reading a line. */
typedef enum LineEnd {
  LINE_COMPLETE,   /* by a newline, or the end of the input after some text: the line is on top of L */
  LINE_NONE,       /* by the end of the input, without any text */
  LINE_INTERRUPTED /* by Ctrl-C: the text is dropped */
} LineEnd;

/* Reads a line. Raises only if memory runs out. */
LineEnd lines_read(lua_State *L, const char *prompt);

#endif
