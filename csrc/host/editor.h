/* editor.h: lines that are edited with libedit: it may be linked into a program of any licence, systems have it as a
   package, and it reads its keys through a function of ours, wait_input, so that go blocks run meanwhile. Where it is not
   there at build time, all lines are read as they come. */
#ifndef RUNNEL_HOST_EDITOR_H
#define RUNNEL_HOST_EDITOR_H

#include <lua.h>
#include <stdbool.h>

#include "host/lines.h"

#ifdef RUNNEL_EDITOR

/* Prepares for editing; false where that is impossible: no libedit, or no terminal that could do it. With the function
   at index `complete`, the Tab key completes: (the line up to the cursor) -> what to insert, list of what is possible.
   With `colours` the prompt is in colour. */
bool editor_open(lua_State *L, const char *program, int complete, bool colours);

/* Gives the terminal back as it was. */
void editor_close(void);

/* Lets a line be edited: it has several lines where it was pasted, or fetched again. */
LineEnd editor_read(lua_State *L, const char *prompt);

/* Adds a chunk to those that can be fetched again. */

void editor_remember(const char *line);

#else

static inline bool editor_open(lua_State *L, const char *program, int complete, bool colours) {
  (void)L;
  (void)program;
  (void)complete;
  (void)colours;
  return false;
}
static inline void editor_close(void) {}
static inline LineEnd editor_read(lua_State *L, const char *prompt) { return lines_read(L, prompt); }
static inline void editor_remember(const char *line) { (void)line; }

#endif
#endif
