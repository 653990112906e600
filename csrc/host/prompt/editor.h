/* editor.h: editing lines with libedit. Its licence allows linking it into any program, systems have it as a package,
   and it can read its keys through wait_input, so that go blocks run meanwhile. Without libedit at build time, lines
   are read without an editor. */
#ifndef RUNNEL_HOST_EDITOR_H
#define RUNNEL_HOST_EDITOR_H

#include <lua.h>
#include <stdbool.h>

#include "host/prompt/lines.h"

/* What to edit. */
typedef struct EditorLine {
  const char *prompt;    /* before the first line */
  const char *continued; /* before each other one */
  const char *before;    /* the text before the cursor; or NULL */
  const char *after;     /* the text behind it; or NULL */
  bool has_earlier;      /* lines that were read before belong to the same chunk */
} EditorLine;

#ifdef RUNNEL_EDITOR

/* Prepares for editing. Returns false if that is impossible: there is no libedit, or no suitable terminal. The table at
   index `handlers` has these functions, which get the chunk, or the part of it before the cursor:
     complete(before) -> the text to insert, the candidates as a list of lines: the Tab key
     enter(all, before) -> nil if the Enter key ends the line; else the text to insert: a newline and blanks
     closing(before) -> how many blanks the last line should begin with, now that it begins with `end` or the like; nil
       if that is not so
     classes(all) -> a string with the class of each byte, as in picture.h
   With `colours` the line is in colour. */
bool editor_open(lua_State *L, const char *program, int handlers, bool colours);

/* Restores the terminal. */
void editor_close(void);

/* Lets the user edit a chunk, of one line or several. Sets *wants_earlier if the user goes up into the earlier lines, so
   that the chunk is to be edited with them. */
LineEnd editor_read(lua_State *L, const EditorLine *what, bool *wants_earlier);

/* Adds a chunk to the history. */
void editor_remember(const char *line);

#else

static inline bool editor_open(lua_State *L, const char *program, int handlers, bool colours) {
  (void)L;
  (void)program;
  (void)handlers;
  (void)colours;
  return false;
}
static inline void editor_close(void) {}
static inline LineEnd editor_read(lua_State *L, const EditorLine *line, bool *wants_earlier) {
  *wants_earlier = false;
  return lines_read(L, line->prompt);
}
static inline void editor_remember(const char *line) { (void)line; }

#endif
#endif
