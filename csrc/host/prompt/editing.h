/* editing.h: what the parts of the editor share: the line, and its picture on the screen. */
#ifndef RUNNEL_HOST_EDITING_H
#define RUNNEL_HOST_EDITING_H

#include <histedit.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

#include "host/prompt/picture.h"
#include "host/prompt/utf8.h"

enum { EDITING_LONGEST_PROMPT = 64 };

/* With this many bytes available, a terminal has pasted them as if they were typed; no user types so far ahead. */
enum { EDITING_PASTED = 16 };

/* The editor's state. There is one terminal, so there is one of it; libedit's functions find it as client data. */
typedef struct Editing {
  EditLine *el;      /* libedit's editor, or NULL */
  HistoryW *history; /* earlier entries */
  FILE *nowhere;     /* where libedit draws */
  lua_State *L;      /* the main thread */

  wchar_t prompt[EDITING_LONGEST_PROMPT];    /* the prompt before the first line */
  wchar_t continued[EDITING_LONGEST_PROMPT]; /* the prompt before each other line */
  Picture picture;                           /* of the line */
  bool colours;                              /* the terminal shows colours, and the user wants them */
  bool shown;                                /* the picture is on the screen */
  bool is_new;                               /* a line begins */
  bool is_left;                              /* the line has ended, and stays on the screen */
  int64_t hidden_at;                         /* when the picture was taken off the screen */
  bool settling;                             /* the size of the screen has changed, and the line was not drawn since */
  int64_t resized_at;                        /* when the size changed */
  bool must_ask;                             /* the terminal is to be asked for its width */
  int64_t asked_at;                          /* when it was asked last, or 0 */
  int times_asked;                           /* how often it was asked since the size changed */
  bool answers;                              /* it has answered before */
  bool is_mute;                              /* it does not answer */

  const char *text_before, *text_after; /* what the line begins with, before and after the cursor; or NULL */
  bool has_earlier;                     /* lines before this one belong to its chunk */
  bool wants_earlier;                   /* the user goes up into them */
  wchar_t key;                          /* the last key */
  size_t length;                        /* of the text, when a key was last awaited */
  int back;                             /* how many chunks back in the history the line is */
  bool interrupted;                     /* Ctrl-C ended the line */
  char *block;       /* a paste that is a chunk of its own, with the text around it in the line; or NULL */
  Utf8Reader reader; /* makes characters of bytes */
} Editing;

/* The registry key of the table of functions that editor_open got. */
#define EDITING_HANDLERS "runnel.host.handlers"

/* Calls one of the functions that editor_open got, with one or two texts, which are freed. Leaves n results on the stack
   of L; false if it raises, or memory has run out: then the stack is as before. */
bool editing_call(lua_State *L, const char *name, char *text, char *second, int n);

/* The beginning of the line of a chunk in which a place is. */
const wchar_t *editing_begin_of_line(const LineInfoW *line, const wchar_t *at);

/* The text of the line, and the part of it before the cursor. The caller frees it. NULL if memory runs out. */
char *editing_text(const Editing *ed);
char *editing_text_before(const Editing *ed);

#endif
