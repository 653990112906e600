/* editor.h: editing lines with libedit. Its licence allows linking it into any program, systems have it as a package,
   and it can read its keys through wait_input, so that go blocks run meanwhile. Without libedit at build time, lines
   are read without an editor. */
#ifndef RUNNEL_HOST_EDITOR_H
#define RUNNEL_HOST_EDITOR_H

#include <lua.h>
#include <stdbool.h>

#include "host/lines.h"

#ifdef RUNNEL_EDITOR

/* Prepares for editing. Returns false if that is impossible: there is no libedit, or no suitable terminal. The Tab key
   calls the function at index `complete`: (the line up to the cursor) -> the text to insert, a list of candidates. With
   `colours` the prompt is in colour. */
bool editor_open(lua_State *L, const char *program, int complete, bool colours);

/* Restores the terminal. */
void editor_close(void);

/* Lets the user edit a line. It may contain newlines if it was pasted or comes from the history. */
LineEnd editor_read(lua_State *L, const char *prompt);

/* Adds a chunk to the history. */
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
