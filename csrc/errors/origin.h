/* origin.h: where the program has called the library. A go block that the library starts is named after that line, not
   after a line of runnel's own.

   An origin is a number that stands for a text such as "pipe at job.lua:2"; equal texts have the same number. A go
   block inherits the origin of the go block that starts it, until it gets one of its own. Only go blocks whose function
   belongs to the library are named after their origin. */
#ifndef RUNNEL_ORIGIN_H
#define RUNNEL_ORIGIN_H

#include "core/state.h"

/* The highest number, and the limit of texts. Calls beyond have no origin. */
enum { ORIGIN_MAX = (1 << 20) - 1 };

/* Pushes and returns the prefix of the source names of the library's functions; nil and NULL if it is unknown. */
const char *origin_push_library(lua_State *L);

/* Whether a function is one of the library's own Lua functions. */
bool origin_is_library(lua_State *L, const lua_Debug *ar);

/* Pushes the text of an origin and returns true, or pushes nothing. */
bool origin_push(lua_State *L, uint32_t origin);

/* The origin of the running call of the library: `what`, the library function that the program has called, and the line
   of that call; 0 if no function of the program is on the stack. May raise. */
uint32_t origin_of_caller(lua_State *L, const char *what);

/* Sets the origin of the go block whose userdata is at index `at`: `what`, the library function that the program has
   called, and the line of that call. If no function of the program is on the stack, or the go block has ended, nothing
   changes. May raise. */
void origin_set(lua_State *L, int at, const char *what);

/* Makes all files below a folder belong to the library, in which the calling function's source is `name`. */
void origin_set_library(lua_State *L, const char *name);

/* Sets up the table of origins; the scheduler's userdata is at SCHED_SELF. */
void origin_open(lua_State *L);

#endif
