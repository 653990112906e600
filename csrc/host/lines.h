/* lines.h: how a line is read, with or without an editor. */
#ifndef RUNNEL_HOST_LINES_H
#define RUNNEL_HOST_LINES_H

#include <lua.h>
#include <stdbool.h>

/* How the reading of a line has ended. */
typedef enum LineEnd {
  LINE_COMPLETE,   /* by the end of the line: it is on top of L */
  LINE_NONE,       /* by the end of the input, and nothing came before it */
  LINE_INTERRUPTED /* by Ctrl-C: what was typed is dropped */
} LineEnd;

/* Reads a line as it comes. All of these may raise only what memory lacks for. */
LineEnd lines_read(lua_State *L, const char *prompt);

#endif
